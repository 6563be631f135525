"""Proof packs: made from the ledger, checked without it, and nothing in them can be changed unseen.

Every mutation is judged twice: by `eventlog.versions.check` and by the stand-alone docs/check_proof.py.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core.errors import Corrupt, NotFound
from core.proof import event_line, head_line, read_event, read_head
from core.tag import Receipt, tag_bytes
from eventlog.ledger import Ledger
from eventlog.versions import proof, tags
from eventlog.versions.check import check
from eventlog.versions.keys import Keys
from eventlog.versions.proof import Named
from eventlog.writer import Writer
from tests.core import naive
from tests.databases import Database

CHECKER = Path(__file__).parents[3] / "docs" / "check_proof.py"
BODIES = [
    b'{"text":"one"}',
    b'{ "text": "two\\n\\u0000 \xf0\x9f\x98\x80",\n "n": 1.0 }',
    b'{"text":"\xe2\x80\xa8\x7f"}',
]


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("check_proof", CHECKER)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STANDALONE: Callable[..., Any] = _load().check


def split(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


def ours(data: bytes, key: bytes | None = None) -> bool:
    return check(split(data), key=key).ok


def theirs(data: bytes, key: bytes | None = None) -> bool:
    try:
        STANDALONE(iter(split(data)), *([key.hex()] if key else []))
    except Exception:
        return False
    return True


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    """Three episodes, an event of each in turn; 900 events, so that tiles and an edge take part."""
    writer = Writer()
    ledger.append_many(
        [
            writer.raw(f"episode/{i % 3}", "NoteAdded", BODIES[i % 7 % 3], occurred_at=1_767_323_045_000_006 + i)
            for i in range(900)
        ]
    )
    return ledger


def made(log: Ledger, keys: Keys, named: Named, under: str | None = None) -> bytes:
    return b"".join(proof.make(log, keys, named, under=under)[1])


def test_a_pack_of_an_episode_holds_its_events_and_checks(log: Ledger, keys: Keys) -> None:
    data = made(log, keys, Named("episode/1"))
    found = check(split(data), key=keys.held().pop())
    assert (found.ok, found.events, found.tag, found.anchored) == (True, 300, None, True)
    assert [read_event(line, 2).event.body for line in split(data)[1:]] == [e.body for e in log.read("episode/1")]
    assert theirs(data, keys.held().pop())


@pytest.mark.parametrize("version", [1, 2, 86, 257, 299, 300])
def test_a_pack_of_one_event_holds_that_event(log: Ledger, keys: Keys, version: int) -> None:
    data = made(log, keys, Named("episode/0", version))
    head, line = split(data)
    assert read_head(head).events == 1
    assert read_event(line, 2).version == version
    assert ours(data, keys.held().pop()) and theirs(data, keys.held().pop())


@pytest.mark.parametrize("at", ["1", "3", "255", "256", "257", "511", "512", "513", "768", "899"])
def test_a_pack_under_a_tag_knows_what_was_there_then(log: Ledger, keys: Keys, at: str) -> None:
    tags.create(log, keys, "then", at=at)
    data = made(log, keys, Named("episode/0"), "then")
    found = check(split(data), key=keys.held().pop())
    assert (found.ok, found.tag, found.events) == (True, "then", (int(at) + 2) // 3)
    assert theirs(data, keys.held().pop())


def test_tiles_that_are_not_built_yet_are_not_needed(log: Ledger, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "seal", lambda self: 0)
    assert ours(made(log, keys, Named("episode/0", 7)), keys.held().pop())


def test_without_a_key_or_receipt_it_is_not_anchored(log: Ledger, keys: Keys) -> None:
    found = check(split(made(log, keys, Named("episode/0", 7))))
    assert (found.ok, found.anchored) == (True, False)


def test_another_key_is_refused(log: Ledger, keys: Keys, tmp_path: Path) -> None:
    other = Keys(tmp_path / "other").make(b"x" * 16).key
    data = made(log, keys, Named("episode/0", 7))
    found = check(split(data), key=other)
    assert (found.ok, found.anchored) == (False, False)
    assert "signed by another key" in (found.fault or "")
    assert not theirs(data, other)


def test_a_pack_signed_anew_by_somebody_else_is_refused(log: Ledger, keys: Keys, tmp_path: Path) -> None:
    head, line = split(made(log, keys, Named("episode/0", 7)))
    genuine = keys.held().pop()
    forger = Keys(tmp_path / "forger").make(b"x" * 16)
    tag = replace(read_head(head).receipt.tag, position=900)
    forged = head_line(replace(read_head(head), receipt=Receipt(tag, forger.key, forger.sign(tag_bytes(tag))))) + line
    assert ours(forged), "it vouches for itself"
    assert not ours(forged, genuine) and not theirs(forged, genuine)
    claimed = head_line(replace(read_head(head), receipt=Receipt(tag, genuine, forger.sign(tag_bytes(tag))))) + line
    assert not ours(claimed) and not ours(claimed, genuine) and not theirs(claimed, genuine)


# -- receipts ----------------------------------------------------------------------------------------


def test_a_receipt_anchors_a_pack_under_its_own_root(log: Ledger, keys: Keys) -> None:
    receipt = tags.create(log, keys, "then", at="500")
    found = check(split(made(log, keys, Named("episode/0", 7), "then")), receipt=receipt)
    assert (found.ok, found.anchored, found.tag) == (True, True, "then")


def test_a_receipt_anchors_a_pack_that_its_key_signed(log: Ledger, keys: Keys) -> None:
    receipt = tags.create(log, keys, "then", at="500")
    assert check(split(made(log, keys, Named("episode/0", 7))), receipt=receipt).anchored


def test_a_receipt_of_another_log_key_or_root_anchors_nothing(log: Ledger, keys: Keys, tmp_path: Path) -> None:
    receipt = tags.create(log, keys, "then", at="500")
    data = split(made(log, keys, Named("episode/0", 7), "then"))
    for tag, key, what in [
        (replace(receipt.tag, log_id=b"o" * 16), receipt.key, "of another log than the receipt"),
        (replace(receipt.tag, root=b"o" * 32), receipt.key, "another root at position 500 than the receipt's"),
        (replace(receipt.tag, position=400), b"o" * 32, "neither under the receipt's root nor signed by its key"),
    ]:
        found = check(data, receipt=Receipt(tag, key, receipt.signature))
        assert (found.ok, found.anchored) == (False, False)
        assert what in (found.fault or "")


# -- what is altered ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[bytes, bytes]]:
    """A small pack that has everything a pack can have, and the key it is signed with."""
    signer = Keys(tmp_path_factory.mktemp("keys")).make(b"i" * 16)
    lines = [line.encode() for line in naive.read("packs")[2]["pack"]]
    head = read_head(lines[0])
    receipt = Receipt(head.receipt.tag, signer.key, signer.sign(tag_bytes(head.receipt.tag)))
    yield head_line(replace(head, events=1, receipt=receipt)) + lines[1], signer.key


def test_one_byte_changed_anywhere_is_found(small: tuple[bytes, bytes]) -> None:
    """Each bit of every byte, and white space, which a reader might take for nothing."""
    data, key = small
    assert ours(data, key) and theirs(data, key)
    missed = []
    for place, byte in enumerate(data):
        for other in {byte ^ 1 << bit for bit in range(8)} | ({0x20} - {byte}):
            altered = data[:place] + bytes([other]) + data[place + 1 :]
            if ours(altered) or theirs(altered, key):
                missed.append((place, byte, other))
    assert not missed


def test_without_a_key_the_stand_alone_checker_finds_all_but_what_only_the_signature_covers(
    small: tuple[bytes, bytes],
) -> None:
    data, _ = small
    head = split(data)[0]
    for place in range(len(head), len(data)):
        assert not theirs(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


def test_one_byte_more_or_less_anywhere_is_found(small: tuple[bytes, bytes]) -> None:
    data, key = small
    for place in range(len(data)):
        less = data[:place] + data[place + 1 :]
        assert not ours(less) and not theirs(less, key), place
        for byte in (b" ", b"0", data[place : place + 1]):
            more = data[:place] + byte + data[place:]
            assert not ours(more) and not theirs(more, key), (place, byte)
    for tail in (b" ", b"\n", b"{}\n", data):
        assert not ours(data + tail, key) and not theirs(data + tail, key)


def test_a_pack_cut_anywhere_is_found(small: tuple[bytes, bytes]) -> None:
    data, key = small
    assert not any(ours(data[:place], key) or theirs(data[:place], key) for place in range(len(data)))


@given(cut=st.tuples(st.integers(0, 4_000), st.integers(0, 80)), put=st.binary(max_size=80), again=st.booleans())
def test_anything_put_anywhere_is_found(
    small: tuple[bytes, bytes], cut: tuple[int, int], put: bytes, again: bool
) -> None:
    data, key = small
    place = cut[0] % len(data)
    altered = data[:place] + (data[: cut[1]] if again else put) + data[place + cut[1] :]
    assert ours(altered, key) == theirs(altered, key) == (altered == data)


def test_lines_changed_about_are_found(log: Ledger, keys: Keys) -> None:
    head, *lines = split(made(log, keys, Named("episode/1")))
    key = keys.held().pop()
    for altered in (
        [head, *lines[1:], lines[0]],
        [head, *lines[:-1]],
        [head, *lines, lines[-1]],
        [head, *lines[:5], *lines[6:]],
        lines,
        [],
    ):
        assert not ours(b"".join(altered), key) and not theirs(b"".join(altered), key)


def test_an_event_that_is_not_the_ledgers_any_more_is_not_proven(log: Ledger, keys: Keys, database: Database) -> None:
    log.seal()
    with database.tampering() as connection:
        connection.execute(
            "UPDATE trajlog.event SET body = '{\"text\":\"no\"}' WHERE stream = 'episode/0' AND version = 7"
        )
    with pytest.raises(Corrupt, match=r"event 7 is not what was committed at position 19; run: trajlog verify"):
        made(log, keys, Named("episode/0"))


# -- bad input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("named", "under", "what"),
    [
        (Named("episode/0", 301), None, "there is no event 301: the stream has 300"),
        (Named("episode/0", 300), "then", "event 300 came after the tag, which knows 167 events of it"),
        (Named("episode/late"), "then", "event 1 came after the tag, which knows 0 events of it"),
        (Named("episode/none"), None, "there is no event 1: the stream has 0"),
        (Named("episode/0"), "no-such", "no such tag"),
    ],
)
def test_what_cannot_be_proven_is_said_in_one_line(
    log: Ledger, keys: Keys, named: Named, under: str | None, what: str
) -> None:
    tags.create(log, keys, "then", at="500")
    log.append(Writer().raw("episode/late", "NoteAdded", b"{}"))
    with pytest.raises(NotFound, match=what):
        made(log, keys, named, under)


def test_an_event_with_every_field_is_proven(ledger: Ledger, keys: Keys) -> None:
    ledger.append(
        Writer("w\u00e9").raw(
            "episode/\u96fb",
            "NoteAdded",
            BODIES[1],
            schema=7,
            occurred_at=-62_135_596_800_000_000,
            actor="planner",
            causation_id=b"c" * 16,
            correlation_id="a\u2028b",
            conversation='\x01"\\',
        )
    )
    data = made(ledger, keys, Named("episode/\u96fb"))
    assert ours(data, keys.held().pop()) and theirs(data, keys.held().pop())
    assert event_line(read_event(split(data)[1], 2)) == split(data)[1]


# -- the stand-alone checker -------------------------------------------------------------------------


def test_the_checker_is_short_and_stands_alone() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) < 100
    for room in ("core", "eventlog", "cli", "trajlog"):
        assert f"import {room}" not in text and f"from {room}" not in text


@pytest.mark.parametrize("with_key", [True, False])
def test_the_checker_runs_as_a_program(small: tuple[bytes, bytes], tmp_path: Path, with_key: bool) -> None:
    data, key = small
    arguments = [key.hex()] if with_key else []
    for content, code in ((data, 0), (data[:-1], 1), (b"", 1)):
        file = tmp_path / "pack"
        file.write_bytes(content)
        ran = subprocess.run(
            [sys.executable, "-I", CHECKER, file, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
        )
        assert ran.returncode == code
        assert (ran.stdout or ran.stderr).count("\n") == 1
        assert ran.stdout == ("episode/2 is proven up to version 1\n" if code == 0 else "")
