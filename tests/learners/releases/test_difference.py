"""Every row of a difference stands under its cause."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from core.vocabulary import BlobRef, Payload
from core.vocabulary.curation import TurnMarked
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted, MessageRecorded
from eventlog.database import Connection
from eventlog.projection import Row
from learners import rows
from learners.recipe import Filters, Recipe
from learners.releases import code, rebuild
from learners.releases.difference import compare, explain
from learners.rows import Key
from learners.views import released as views
from learners.views.sft_fold import Fold, State
from learners.views.sft_row import SftRow
from tests.databases import Database
from tests.eventlog import samples
from tests.learners.releases.making import append, episodes, nothing, released


def test_each_change_has_its_cause(database: Database, tmp_path: Path) -> None:
    streams = list(episodes(8))
    with database.ledger() as log:
        append(log, episodes(8))
        old = released(log, tmp_path).release
        append(log, episodes(1, first=8))
        late = [
            (streams[0], samples.judged("fail", source="human")),
            (streams[1], samples.judged("fail")),
            (streams[2], TurnMarked(step=1, erroneous=True, source="rule", rule="schema@1")),
            (streams[3], EpisodeRetracted(import_id="i1")),
        ]
        for stream, payload in late:
            log.append_many(samples.events(stream, [payload]))
        append(log, {"episode/ffff": _held_out("task-4")})
        new = released(log, tmp_path, recipe=Recipe(filters=Filters(not_task=["task-5"]))).release
        found = explain(compare(log, old, new), old, new, [log])
    causes = {change.key.stream: (change.kind, change.cause) for change in found.changes}
    added = next(iter(episodes(1, first=8)))
    assert causes.pop(streams[2], None) in (("changed", "new events"), ("removed", "new events"))
    assert causes == {
        streams[0]: ("removed", "reviewer"),
        streams[1]: ("removed", "superseded verdict"),
        streams[3]: ("removed", "retraction"),
        streams[4]: ("removed", "split"),
        streams[5]: ("removed", "recipe"),
        added: ("added", "new events"),
    }
    assert found.same == 2


def _held_out(task: str) -> list[Payload]:
    started, *rest = samples.episode(task=task, verdict="pass", split="dev")
    assert isinstance(started, EpisodeStarted)
    return [replace(started, goal="Order flowers for Wednesday"), *rest]


def test_a_release_does_not_differ_from_itself(database: Database, tmp_path: Path) -> None:
    with database.ledger() as log:
        append(log, episodes(3))
        release = released(log, tmp_path).release
        found = compare(log, release, release)
    assert (found.changes, found.same) == ([], 3)


STEPS = [column.name for column in Fold.logical].index("steps")
LARGE = BlobRef("sha256:" + "4" * 64, 70_000, "text/plain")


def test_a_row_whose_text_was_erased_is_an_erasure(database: Database, tmp_path: Path) -> None:
    found = episodes(3)
    stream = next(iter(found))
    found[stream].insert(1, MessageRecorded(role="system", content=samples.raw(msgspec.to_builtins(LARGE))))
    with database.ledger() as log:
        append(log, found)
        whole = released(log, tmp_path, blobs={LARGE.address: b"x" * LARGE.size}).release
        without = released(log, tmp_path).release
        gone = explain(compare(log, whole, without), whole, without, [log])
        back = explain(compare(log, without, whole), without, whole, [log])
    assert without.built.exclusions == {"blob missing": 1}
    assert [(c.key.stream, c.kind, c.cause, c.detail) for c in gone.changes] == [
        (stream, "removed", "erasure", "what it rests on is gone")
    ]
    assert [(c.kind, c.cause, c.detail) for c in back.changes] == [
        ("added", "erasure", "what it rests on is there again")
    ]


class Next(Fold):
    """The fold as it may become: without episodes of one step, and turns counted otherwise."""

    version = 2

    def rows(self, state: State, after: int) -> Iterable[Row]:
        for row in super().rows(state, after):
            if row[STEPS] > 1:
                yield (*row[:STEPS], row[STEPS] * 10, *row[STEPS + 1 :])


class NextRow(SftRow):
    version = 2
    projection = Next()
    projections = (projection, SftRow.projections[1])


def test_what_another_fold_makes_of_the_same_events_is_a_fold_version(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = list(episodes(4))
    with database.ledger() as log:
        append(log, episodes(4))
        old = released(log, tmp_path).release
        monkeypatch.setattr(views, "RELEASED", (*views.RELEASED, NextRow()))
        append(log, episodes(1, first=5))
        new = released(log, tmp_path).release
        found = explain(compare(log, old, new), old, new, [log])
        again = rebuild.rebuild(old, [log], tmp_path / "again", nothing)
    assert (old.built.view, new.built.view) == ("sft_row@1", "sft_row@2")
    assert {change.detail for change in found.changes if change.cause == "fold version"} == {"sft_row@1 → sft_row@2"}
    assert {c.key.stream: (c.kind, c.cause) for c in found.changes} == {
        streams[0]: ("removed", "fold version"),
        **dict.fromkeys(streams[1:], ("changed", "fold version")),
        next(iter(episodes(1, first=5))): ("added", "new events"),
    }
    assert again.identical


class Edited(SftRow):
    """The view, edited without a new version."""

    def rows(self, connection: Connection, log_id: bytes, keys: Collection[Key] | None = None) -> Iterator[rows.Row]:
        for row in super().rows(connection, log_id, keys):
            yield row._replace(values=(*row.values[:STEPS], row.values[STEPS] * 10, *row.values[STEPS + 1 :]))


def test_the_same_version_from_another_source_is_named(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.ledger() as log:
        append(log, episodes(2))
        old = released(log, tmp_path).release
        monkeypatch.setattr(views, "RELEASED", (Edited(),))
        monkeypatch.setattr(code, "digest", lambda view: "0" * 64)
        new = released(log, tmp_path).release
        found = explain(compare(log, old, new), old, new, [log])
    assert [(c.kind, c.cause, c.detail) for c in found.changes] == [
        ("changed", "fold version", "the same version from another source")
    ] * 2
