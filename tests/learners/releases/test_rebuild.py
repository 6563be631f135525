"""A release rebuilt later, or elsewhere, is the same, or it is said why it is not."""

import random
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.vocabulary.episode import MessageRecorded
from eventlog.blobs import BlobStore
from learners.recipe import Caps, Recipe, Weights
from learners.releases import chat, rebuild, register, states
from learners.releases.sources import at
from tests.databases import Database, Databases
from tests.eventlog import samples
from tests.learners.releases.making import another, append, contents, episodes, nothing, released

RECIPE = Recipe(seed=3, caps=Caps(source=40), weights=Weights(source={"live": 2.0}))


def test_after_many_more_events_it_is_the_same_to_the_byte(database: Database, tmp_path: Path) -> None:
    with database.ledger() as log:
        append(log, episodes(60))
        built = released(log, tmp_path, recipe=RECIPE)
        before = contents(built.folder)
        append(log, episodes(40, first=60))
        log.append_many(samples.events("episode/" + "0" * 16, [samples.judged("fail", source="human")]))
        shutil.rmtree(built.folder)
        made = rebuild.rebuild(built.release, [log], tmp_path, nothing)
    assert (made.id, made.identical, made.reason) == (built.release.built.release_id, True, None)
    assert contents(built.folder) == before
    assert built.release.built.rows == 40


def test_elsewhere_in_another_order_it_has_the_same_id(
    databases: Databases, database: Database, tmp_path: Path
) -> None:
    found = episodes(30)
    with database.ledger() as log, another(databases).ledger() as other:
        append(log, found)
        append(other, dict(random.Random(1).sample(list(found.items()), len(found))))
        one = released(log, tmp_path / "a", recipe=RECIPE)
        two = released(other, tmp_path / "b", recipe=RECIPE)
    assert one.release.built.release_id == two.release.built.release_id
    assert one.release.built.cuts[0].log_id != two.release.built.cuts[0].log_id
    assert (one.folder / "data-00000.arrow").read_bytes() == (two.folder / "data-00000.arrow").read_bytes()
    assert (one.folder / "order.arrow").read_bytes() == (two.folder / "order.arrow").read_bytes()


@pytest.mark.parametrize("cuts", [20, pytest.param(100, marks=pytest.mark.faults)])
def test_at_any_cut_it_comes_back(cuts: int, database: Database, tmp_path: Path) -> None:
    chance = random.Random(8)
    with database.ledger() as log:
        for batch in range(20):
            append(log, episodes(6, first=6 * batch, verdict=chance.choice(["pass", "fail"])))
            for number in chance.sample(range(6 * (batch + 1)), 3):
                stream = f"episode/{number * 2654435761 % 2**64:016x}"
                log.append_many(samples.events(stream, [samples.judged(chance.choice(["pass", "fail"]))]))
        head = log.head().position
        for i in range(cuts):
            name = f"r{i}"
            cut = chance.randrange(60, head + 1)
            built = released(log, tmp_path, name, recipe=Recipe(seed=i), as_of=str(cut))
            made = rebuild.rebuild(built.release, [log], tmp_path / "again", nothing)
            assert made.identical
            assert contents(tmp_path / "again" / str(built.release.named)) == contents(built.folder)


def test_what_was_taken_from_the_release_before_is_as_if_made_anew(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    made_anew: list[str] = []
    conversation = chat.conversation

    def counted(stream: str, *given: Any) -> chat.Told:
        made_anew.append(stream)
        return conversation(stream, *given)

    monkeypatch.setattr(chat, "conversation", counted)
    with database.ledger() as log:
        append(log, episodes(700))
        first = released(log, tmp_path)
        append(log, episodes(30, first=700))
        for number in chance.sample(range(700), 20):
            stream = f"episode/{number * 2654435761 % 2**64:016x}"
            log.append_many(samples.events(stream, [samples.judged(chance.choice(["fail", "pass"]), source="human")]))
        made_anew.clear()
        second = released(log, tmp_path)
        assert 30 < len(made_anew) < 60
        made = rebuild.rebuild(second.release, [log], tmp_path / "again", nothing)
    assert second.release.version == 2
    assert made.identical
    assert contents(tmp_path / "again" / "sft@v2") == contents(second.folder)
    assert second.release.built.voids == {"sft@v1": 20}
    assert first.release.built.rows == 700


def test_after_an_erasure_it_says_erased(database: Database, tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path / "blobs")
    large = blobs.put(b"x" * 70_000, "text/plain")
    with database.ledger() as log:
        found = episodes(3)
        stream = next(iter(found))
        content = samples.raw(msgspec.to_builtins(large))
        found[stream].insert(1, MessageRecorded(role="system", content=content))
        append(log, found)
        built = released(log, tmp_path, blobs={large.address: b"x" * 70_000})
        gone = rebuild.rebuild(built.release, [log], tmp_path, nothing)
        back = rebuild.rebuild(built.release, [log], tmp_path, {large.address: b"x" * 70_000}.__getitem__)
    assert (gone.identical, gone.reason) == (False, "erased")
    assert (back.identical, back.reason) == (True, None)


def test_a_view_that_this_code_has_not_is_named_with_the_version_that_has_it(
    database: Database, tmp_path: Path
) -> None:
    with database.ledger() as log:
        append(log, episodes(2))
        release = released(log, tmp_path).release
        code = msgspec.structs.replace(release.built.code, trajlog="9.9.9")
        newer = msgspec.structs.replace(release.built, view="sft_row@99", code=code)
        made = rebuild.rebuild(states.Release("sft", newer, 0), [log], tmp_path, nothing)
    assert (made.id, made.reason) == (None, "code")
    assert "9.9.9" in (made.detail or "")


def test_two_logs_give_one_release(databases: Databases, database: Database, tmp_path: Path) -> None:
    with database.ledger() as log, another(databases).ledger() as other:
        append(log, episodes(5))
        append(other, episodes(4, first=5))
        built = released(log, tmp_path, others=[at(other, None)])
        assert built.release.built.rows == 9
        assert sorted(cut.rows for cut in built.release.built.cuts) == [4, 5]
        append(other, episodes(4, first=9))
        made = rebuild.rebuild(built.release, [log, other], tmp_path / "again", nothing)
        assert made.identical
        with pytest.raises(Exception, match="draws on the log"):
            rebuild.rebuild(built.release, [log], tmp_path, nothing)


def test_a_build_that_was_killed_before_it_was_said_goes_on(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.ledger() as log:
        append(log, episodes(3))
        head = log.head().position
        with monkeypatch.context() as patched:
            patched.setattr(type(log), "append", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                released(log, tmp_path)
        assert states.releases(log, "sft") == []
        assert not list(tmp_path.glob(".making-*"))
        append(log, episodes(1, first=3))
        later = released(log, tmp_path)
        assert (later.release.version, later.release.built.rows) == (2, 4)
        earlier = released(log, tmp_path, as_of=str(head))
        assert (earlier.release.version, earlier.release.built.rows) == (1, 3)
        assert [release.version for release in states.releases(log, "sft")] == [1, 2]
        for release in states.releases(log, "sft"):
            assert rebuild.rebuild(release, [log], tmp_path / "again", nothing).identical
        assert [entry.key.stream for entry in register.members(log, "sft", 1)] == sorted(episodes(3))
        assert [entry.key.stream for entry in register.members(log, "sft", 2)] == sorted(episodes(4))
