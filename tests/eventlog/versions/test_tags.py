"""Tags: signed, for ever, and found out when they or the log under them were changed."""

import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from core.errors import Corrupt, NotFound, UsageError
from core.merkle import verify_consistency
from core.tag import Receipt, tag_bytes
from core.times import to_text
from eventlog.database import connect
from eventlog.inmemory import InMemoryLog
from eventlog.ledger import Ledger
from eventlog.versions import tags
from eventlog.versions.cut import Cut, locate, resolve
from eventlog.versions.keys import Keys, Signer, signed
from eventlog.versions.rotation import instance_of
from eventlog.versions.tags import TagTaken
from eventlog.writer import Writer
from tests.databases import Database


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "keys")


@pytest.fixture
def log(ledger: Ledger) -> Ledger:
    grow(ledger, 600)
    return ledger


def grow(log: Ledger, count: int, stream: str = "episode/{}") -> None:
    writer = Writer()
    for start in range(0, count, 10):
        log.append_many([writer.raw(stream.format(start // 100), "NoteAdded", b'{"text":"x"}') for _ in range(10)])


def test_a_tag_says_what_the_log_is_and_is_signed(log: Ledger, keys: Keys) -> None:
    receipt = tags.create(log, keys, "gold", why="for the audit")
    head = log.head()
    tag = receipt.tag
    assert (tag.name, tag.log_id, tag.position, tag.root, tag.seal) == (
        "gold", log.log_id, 600, log.root(), head.seal,
    )  # fmt: skip
    assert tag.instance_id == instance_of(log)
    assert tag.created_at >= (head.committed_at or 0)
    assert signed(receipt.key, tag_bytes(tag), receipt.signature)
    assert receipt.key == keys.held().pop()
    assert tags.tag(log, "gold") == receipt
    assert tags.tags(log) == [receipt]


def test_a_tag_of_the_past_is_the_log_as_it_was(log: Ledger, keys: Keys) -> None:
    by_position = tags.create(log, keys, "p", at="123").tag
    event = next(iter(log.read_all(after=122)))
    by_time = tags.create(log, keys, "t", at=to_text(event.committed_at)).tag
    assert (by_position.position, by_position.root) == (123, log.root(123))
    assert (by_time.position, by_time.root) == (130, log.root(130))


def test_a_tag_is_a_cut_for_every_reader(log: Ledger, keys: Keys) -> None:
    tag = tags.create(log, keys, "gold", at="123").tag
    grow(log, 50)
    assert locate(log, "gold") == 123
    assert resolve(log, "gold") == Cut(log.log_id, 123, tag.root, tag.seal)


def test_tags_wait_for_the_sealer(log: Ledger, keys: Keys) -> None:
    tags.create(log, keys, "gold")
    with log.reader.borrow() as connection:
        assert connection.execute("SELECT count(*) FROM trajlog.merkle").fetchone() == (2,)


def test_offsets_are_signed_with_it(ledger: Ledger, keys: Keys, database: Database) -> None:
    grow(ledger, 10)
    topic = UUID(int=10)
    with database.tampering() as connection:
        connection.execute("DELETE FROM trajlog.segment")
        connection.execute("SELECT trajlog.close_segment(1, 10, %s, 3, 0, 12)", (topic,))
    receipt = tags.create(ledger, keys, "gold")
    assert receipt.tag.offsets == ((topic.bytes, 3, 12),)
    assert tags.tag(ledger, "gold") == receipt
    assert tags.fault(ledger, receipt) is None


def test_a_name_is_taken_once(log: Ledger, keys: Keys) -> None:
    tags.create(log, keys, "gold", at="5")
    with pytest.raises(TagTaken, match="gold: this tag stands at position 5, for ever; give the new one another name"):
        tags.create(log, keys, "gold")
    assert tags.tag(log, "gold").tag.position == 5


def test_of_several_at_once_one_gets_the_name(log: Ledger, keys: Keys, database: Database) -> None:
    outcomes: list[Any] = []

    def run() -> None:
        with database.ledger() as mine:
            try:
                outcomes.append(tags.create(mine, keys, "gold"))
            except TagTaken as error:
                outcomes.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [one for one in outcomes if isinstance(one, Receipt)]
    assert len(outcomes) == 4 and made == [tags.tag(log, "gold")]
    assert keys.held() == {made[0].key}


def test_a_key_that_somebody_else_makes_meanwhile_is_the_key(log: Ledger, keys: Keys) -> None:
    class Late(Keys):
        def signer(self, instance_id: bytes) -> Signer | None:
            found = super().signer(instance_id)
            if found is None:  # and before it is asked for who signed last:
                tags.create(log, Keys(self.folder), "other")
            return found

    receipt = tags.create(log, Late(keys.folder), "gold")
    assert keys.held() == {receipt.key} == {tags.tag(log, "other").key}


@pytest.mark.parametrize(
    "name", ["", "1st", "7d", "2026-01-01", "a b", "a\n", "\u00e9t\u00e9", "-x", "@last", "a" * 129, "a\0"]
)
def test_a_name_that_could_be_something_else_is_refused(log: Ledger, keys: Keys, name: str) -> None:
    with pytest.raises(UsageError, match="a tag's name is a letter"):
        tags.create(log, keys, name)
    assert not keys.folder.exists()


@pytest.mark.parametrize("why", ["a\0", "\ud800", "x" * 4_001])
def test_a_reason_that_cannot_be_kept_is_refused(log: Ledger, keys: Keys, why: str) -> None:
    with pytest.raises(UsageError, match="--why must be text"):
        tags.create(log, keys, "gold", why=why)


def test_nothing_is_named_where_there_is_nothing(ledger: Ledger, keys: Keys) -> None:
    for at in (None, "0"):
        with pytest.raises(NotFound, match="no events yet"):
            tags.create(ledger, keys, "gold", at=at)
    assert not keys.folder.exists()


def test_what_is_before_the_first_event_is_not_signed(log: Ledger, keys: Keys) -> None:
    with pytest.raises(NotFound, match="0 is before the first event"):
        tags.create(log, keys, "gold", at="0")


def test_an_unknown_tag_is_said(log: Ledger) -> None:
    for name in ("gold", "", "7"):
        with pytest.raises(NotFound, match=r"no such tag; trajlog tag ls lists them"):
            tags.tag(log, name)


def test_a_log_in_memory_has_no_tags(keys: Keys) -> None:
    with InMemoryLog() as log, pytest.raises(UsageError):
        tags.create(log, keys, "gold")


# -- what was changed --------------------------------------------------------------------------------


@pytest.fixture
def tagged(log: Ledger, keys: Keys) -> Receipt:
    return tags.create(log, keys, "gold", at="300", why="w")


def faults(log: Ledger) -> list[str | None]:
    return [tags.fault(log, receipt) for receipt in tags.tags(log)]


def test_a_tag_holds_as_long_as_the_log_extends_it(log: Ledger, tagged: Receipt) -> None:
    assert faults(log) == [None]
    grow(log, 300)
    assert faults(log) == [None]


@pytest.mark.parametrize(
    "change",
    [
        "name = 'silver'",
        "log_id = gen_random_uuid()",
        "instance_id = gen_random_uuid()",
        "position = position + 1",
        "root = sha256('')",
        "seal = sha256('')",
        "seal = NULL",
        "offsets = decode(repeat('00', 28), 'hex')",
        "created_at = created_at + interval '1 microsecond'",
        "why = 'v'",
        "why = NULL",
        "key = sha256('')",
        "signature = set_byte(signature, 5, (get_byte(signature, 5) + 1) % 256)",
    ],
)
def test_whatever_is_changed_in_a_tag_is_found(log: Ledger, tagged: Receipt, database: Database, change: str) -> None:
    with database.tampering() as connection:
        connection.execute(f"UPDATE trajlog.tag SET {change}")
    assert faults(log) == ["the signature is not that of what the tag says"]


def test_a_tag_put_in_with_a_key_of_ones_own_is_not_vouched_for(
    log: Ledger, keys: Keys, tagged: Receipt, tmp_path: Path
) -> None:
    forger = Keys(tmp_path / "forger")
    forger.make(instance_of(log))
    forged = tags.create(log, forger, "forged")
    trusted = tags.trusted(log, keys, tags.tags(log))
    assert tagged.key in trusted
    assert forged.key not in trusted
    assert forged.key in tags.trusted(log, keys, [forged], forged.key)


def test_a_tag_of_another_log_is_found(log: Ledger, keys: Keys, tagged: Receipt) -> None:
    signer = keys.make(instance_of(log))
    tag = replace(tagged.tag, log_id=b"o" * 16)
    assert tags.fault(log, Receipt(tag, signer.key, signer.sign(tag_bytes(tag)))) == "a tag of another log"


def cut_off(database: Database, position: int) -> None:
    with database.tampering() as connection:
        connection.execute("DELETE FROM trajlog.event WHERE position > %s", (position,))
        connection.execute("DELETE FROM trajlog.segment WHERE last_position > %s", (position,))
        connection.execute("DELETE FROM trajlog.merkle WHERE (index + 1) << (8 * (level + 1)) > %s", (position,))
        connection.execute(
            "UPDATE trajlog.stream s SET (version, last_position) = (SELECT max(e.version), max(e.position) "
            "FROM trajlog.event e WHERE e.stream = s.stream) WHERE s.last_position > %s AND s.first_position <= %s",
            (position, position),
        )
        connection.execute("DELETE FROM trajlog.stream WHERE first_position > %s", (position,))


def test_a_tag_beyond_what_is_left_is_found(log: Ledger, tagged: Receipt, database: Database) -> None:
    cut_off(database, 290)
    assert faults(log) == ["the log ends at position 290: positions 291 to 300 were lost"]
    with pytest.raises(Corrupt, match="gold: the tag names position 300, but the log ends at 290: its end was lost"):
        locate(log, "gold")


def test_a_tag_over_positions_that_were_taken_again_is_found(log: Ledger, tagged: Receipt, database: Database) -> None:
    """As after a failover to a server that was behind."""
    cut_off(database, 290)
    grow(log, 100, "episode/again{}")
    assert faults(log) == ["the events up to position 300 are not those that were tagged"]
    with pytest.raises(Corrupt, match="gold: the log up to position 300 is not what was tagged"):
        locate(log, "gold")


def test_other_commits_of_the_same_events_are_found(log: Ledger, tagged: Receipt, database: Database) -> None:
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.segment SET seal = sha256(seal) WHERE last_position = 300")
    assert faults(log) == ["the commits up to position 300 are not those that were tagged"]


def test_other_offsets_are_found(log: Ledger, tagged: Receipt, database: Database) -> None:
    with database.tampering() as connection:
        connection.execute(
            "UPDATE trajlog.segment SET topic_id = gen_random_uuid(), partition = 0, first_offset = 0, next_offset = 9 "
            "WHERE last_position = 200"
        )
    assert faults(log) == ["the offsets up to position 300 are not those that were tagged"]


# -- what lies between -------------------------------------------------------------------------------


def test_a_difference_is_what_came_in_between(ledger: Ledger, keys: Keys) -> None:
    writer = Writer()

    def add(stream: str, type_: str, count: int) -> None:
        ledger.append_many([writer.raw(stream, type_, b"{}") for _ in range(count)])

    add("episode/old", "EpisodeStarted", 1)
    add("episode/still", "EpisodeStarted", 1)
    tags.create(ledger, keys, "a")
    add("episode/old", "NoteAdded", 2)
    add("episode/new", "EpisodeStarted", 1)
    add("episode/new", "NoteAdded", 1)
    add("import/1", "ImportStarted", 1)
    tags.create(ledger, keys, "b")
    add("episode/later", "EpisodeStarted", 1)
    found = tags.diff(ledger, "a", "b")
    assert found.types == {"NoteAdded": 3, "EpisodeStarted": 1, "ImportStarted": 1}
    assert [(one.episode, one.events) for one in found.begun] == [("new", 2)]
    assert [(one.episode, one.events) for one in found.changed] == [("old", 2)]
    assert tags.diff(ledger, "b", "a") == found
    empty = tags.diff(ledger, "b", "b")
    assert (empty.types, empty.begun, empty.changed, empty.proof) == ({}, [], [], [])


@pytest.mark.parametrize(("one", "other"), [("1", "600"), ("255", "256"), ("256", "512"), ("257", "599"), ("0", "7")])
def test_a_difference_carries_a_proof_that_holds(log: Ledger, one: str, other: str) -> None:
    found = tags.diff(log, one, other)
    roots = log.root(int(one)), log.root(int(other))
    assert (found.old.root, found.new.root) == roots
    assert one == "0" or verify_consistency(int(one), int(other), *roots, found.proof)


def test_a_tag_that_the_log_does_not_extend_has_no_difference(log: Ledger, tagged: Receipt, database: Database) -> None:
    with database.tampering() as connection:
        connection.execute("UPDATE trajlog.tag SET root = sha256('')")
    with pytest.raises(Corrupt, match="the log up to position 600 does not extend that up to position 300"):
        tags.diff(log, "gold", "600")


# -- immutable ---------------------------------------------------------------------------------------


def test_the_application_may_read_and_add_tags_and_no_more(database: Database) -> None:
    with connect(database.url) as connection:
        may = connection.execute(
            "SELECT string_agg(privilege_type, ' ' ORDER BY privilege_type) FROM information_schema.table_privileges "
            "WHERE grantee = 'trajlog_app' AND table_schema = 'trajlog' AND table_name = 'tag'"
        ).fetchone()
    assert may == ("INSERT SELECT",)
