"""A receipt kept elsewhere: what it covers must still be there, or `verify` says what became of it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from core.digest import event_digest
from core.errors import BadRecord, NotFound, UsageError
from core.tag import Receipt, receipt_line, tag_bytes
from eventlog.ledger import Ledger
from eventlog.pack import crc
from eventlog.verify import COVERED, TAIL, Report, verify
from eventlog.versions import receipt, rotation, tags
from eventlog.versions.keys import Keys
from eventlog.versions.rotation import instance_of
from eventlog.writer import Writer
from tests.databases import Database
from tests.eventlog.versions.test_tags import cut_off, grow


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    grow(ledger, 600)
    return ledger


def held(log: Ledger, kept: Receipt, *, since: int = 0) -> Report:
    return verify(log.reader, since=since, receipt=kept)


def said(log: Ledger, kept: Receipt) -> str:
    """What the receipt shows; nothing else may be wrong."""
    report = held(log, kept)
    (problem,) = report.problems
    assert (report.ok, problem.kind, problem.position) == (False, "receipt", kept.tag.position)
    assert TAIL in report.unknowable
    return problem.detail


@pytest.mark.parametrize("at", ["1", "255", "256", "300", "512", "599", "600"])
def test_a_log_that_grew_extends_its_receipt(log: Ledger, keys: Keys, at: str) -> None:
    kept = tags.create(log, keys, "kept", at=at)
    assert held(log, kept).ok
    grow(log, 300)
    report = held(log, kept)
    assert (report.ok, report.problems) == (True, [])
    assert report.unknowable[0] == COVERED.format(at)
    assert held(log, kept, since=550).ok


def test_what_the_receipt_covers_is_known_of_the_edge_too(log: Ledger, keys: Keys) -> None:
    log.seal()
    assert "positions 513 to 600" in verify(log.reader).unknowable[1]
    assert "positions 551 to 600" in held(log, tags.create(log, keys, "a", at="550")).unknowable[1]
    assert len(held(log, tags.create(log, keys, "b")).unknowable) == 1


def test_a_lost_end_is_seen_with_the_receipt_alone(log: Ledger, keys: Keys, database: Database) -> None:
    kept = tags.create(log, keys, "kept")
    cut_off(database, 590)
    assert verify(log.reader).ok
    assert said(log, kept) == (
        "the receipt covers positions 1 to 600, but the log ends at 590: the last 10 events it covers were lost"
    )


def test_a_log_that_lost_all_is_seen(log: Ledger, keys: Keys, database: Database) -> None:
    kept = tags.create(log, keys, "kept")
    cut_off(database, 0)
    assert said(log, kept).endswith("the log ends at 0: the last 600 events it covers were lost")


def test_positions_taken_again_after_a_failover_are_seen(log: Ledger, keys: Keys, database: Database) -> None:
    """A server that was behind took over, and went on from where it was."""
    kept = tags.create(log, keys, "kept")
    cut_off(database, 570)
    grow(log, 100, "episode/again{}")
    assert verify(log.reader).ok
    detail = said(log, kept)
    assert detail.startswith("the log went back to before the receipt, by a failover or a restore: position 600 was")
    assert detail.endswith("of what it covers, positions 571 to 600 were lost")


@pytest.mark.parametrize("position", [1, 300, 520, 600])
def test_history_written_anew_with_all_its_digests_is_seen(
    log: Ledger, keys: Keys, database: Database, position: int
) -> None:
    kept = tags.create(log, keys, "kept")
    (event,) = log.read_all(after=position - 1, until=position)
    body = b'{"text":"rewritten"}'
    with database.tampering() as connection:
        connection.execute(
            "UPDATE trajlog.event SET body = %s, digest = %s, crc = %s WHERE position = %s",
            (body, event_digest(replace(event, body=body)), crc(body), position),
        )
        connection.execute("DELETE FROM trajlog.merkle")
    log.seal()
    assert verify(log.reader).ok
    assert said(log, kept) == "history was rewritten: positions 1 to 600 are not those that the receipt covers"


def test_tiles_that_were_left_as_they_were_hide_nothing(log: Ledger, keys: Keys, database: Database) -> None:
    """The root that is compared is recomputed from the events."""
    kept = tags.create(log, keys, "kept")
    (event,) = log.read_all(after=99, until=100)
    body = b'{"text":"rewritten"}'
    with database.tampering() as connection:
        connection.execute(
            "UPDATE trajlog.event SET body = %s, digest = %s, crc = %s WHERE position = 100",
            (body, event_digest(replace(event, body=body)), crc(body)),
        )
    assert {problem.kind for problem in held(log, kept).problems} == {"tree", "receipt"}


def test_other_commits_of_the_same_events_are_seen(log: Ledger, keys: Keys) -> None:
    signer = keys.make(instance_of(log))
    tag = replace(tags.create(log, keys, "kept").tag, seal=b"s" * 32)
    detail = said(log, Receipt(tag, signer.key, signer.sign(tag_bytes(tag))))
    assert detail == "the commits up to position 600, their times or offsets, are not those of the receipt"


# -- the file ----------------------------------------------------------------------------------------


def test_a_receipt_is_read_as_it_was_written(log: Ledger, keys: Keys, tmp_path: Path) -> None:
    kept = tags.create(log, keys, "kept", why="w\u00e9")
    file = tmp_path / "kept"
    file.write_bytes(receipt_line(kept))
    assert receipt.load(file) == kept


def test_one_byte_changed_anywhere_is_found(log: Ledger, keys: Keys, tmp_path: Path) -> None:
    data = receipt_line(tags.create(log, keys, "kept", why="w"))
    file = tmp_path / "kept"
    for place, byte in enumerate(data):
        for other in {byte ^ 1, byte ^ 0x20, 0x20} - {byte}:
            file.write_bytes(data[:place] + bytes([other]) + data[place + 1 :])
            with pytest.raises(BadRecord) as raised:
                receipt.load(file)
            assert "altered" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b"null\n", b"[" * 5_000, b"x" * (1 << 20)])
def test_a_file_that_is_no_receipt_is_said(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "kept"
    file.write_bytes(content)
    with pytest.raises(BadRecord, match="not a receipt, or an altered one"):
        receipt.load(file)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no such receipt"):
        receipt.load(tmp_path / "none")
    with pytest.raises(UsageError, match="cannot be read"):
        receipt.load(tmp_path)


def test_a_receipt_of_another_log_is_refused(log: Ledger, keys: Keys) -> None:
    kept = tags.create(log, keys, "kept")
    receipt.refuse_other_log(kept, log.log_id, "kept")
    with pytest.raises(BadRecord, match=r"kept: a receipt of another log, .*; this is "):
        receipt.refuse_other_log(kept, b"o" * 16, "kept")


def test_a_receipt_outlives_a_rotation(log: Ledger, keys: Keys) -> None:
    kept = tags.create(log, keys, "kept")
    rotation.rotate(log, keys)
    log.append(Writer().raw("episode/1", "NoteAdded", b"{}"))
    assert held(log, kept).ok
    assert kept.key in tags.trusted(log, keys, [kept])
