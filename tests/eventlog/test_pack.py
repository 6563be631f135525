"""The rows that COPY takes: every field goes through Postgres and comes back as it was."""

import pickle
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from core.digest import event_digest
from core.errors import BadEvent
from core.event import Event, StoredEvent
from core.identity import uuid7
from eventlog.ledger import Ledger
from eventlog.log import MAX_BATCH_BYTES, BatchTooLarge
from eventlog.pack import COLUMNS, HEADER, TRAILER, Packed, Packer, Stretch, crc, pack
from eventlog.testing import an_event, refused_events, rich_events
from tests.core.strategies import events
from tests.examples import examples

stored_texts = ("stream", "writer", "type", "actor", "owner", "key_id", "correlation_id", "conversation")


def as_written(stored: StoredEvent) -> dict[str, object]:
    written = asdict(stored)
    for added in ("version", "position", "digest", "committed_at"):
        del written[added]
    return written


def test_every_field_comes_back_through_both_ways_of_writing(ledger: Ledger) -> None:
    sent = rich_events()
    ledger.append_many(sent)
    again = [replace(event, event_id=uuid7()) for event in sent]
    for event in again:
        ledger.append(event)
    stored = list(ledger.read_all())
    assert [as_written(event) for event in stored] == [asdict(event) for event in sent + again]
    assert [event.digest for event in stored] == [event_digest(event) for event in sent + again]


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(events, min_size=1, max_size=5, unique_by=lambda event: event.event_id))
def test_any_event_that_passes_the_door_comes_back(ledger: Ledger, some: list[Event]) -> None:
    sent = []
    for event in some:
        fresh = replace(event, event_id=uuid7(), expected_version=None, body=event.body.strip())
        try:
            pack([fresh])
        except BadEvent:
            continue
        sent.append(fresh)
    after = ledger.head().position
    ledger.append_many(sent)
    assert [as_written(event) for event in ledger.read_all(after=after)] == [asdict(event) for event in sent]


def parts(packed: Packed) -> list[object]:
    names = ("ids", "streams", "owners", "digests", "expected", "starts", "rows")
    return [getattr(packed, name) for name in names]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=4))
def test_stretches_of_batches_are_joined_in_order(cuts: list[tuple[int, int]]) -> None:
    given = [an_event(f"episode/{seq}", seq=seq + 1, expected_version=seq or None) for seq in range(6)]
    packed, stretches = pack(given), [(first, last) for first, last in cuts if first <= last]
    joined = Packed.joined(Stretch(packed, first, last) for first, last in stretches)
    assert parts(joined) == parts(pack([event for first, last in stretches for event in given[first:last]]))


@pytest.mark.parametrize("kept", [0, 1, 3])
def test_a_packer_forgets_what_came_last(kept: int) -> None:
    given = [an_event(f"episode/{seq}", seq=seq + 1) for seq in range(4)]
    packer = Packer()
    packer.take(given[:3])
    packer.drop(kept)
    packer.take(given[3:])
    assert packer.size == sum(map(len, packer.rows))
    assert parts(packer.packed()) == parts(pack([*given[:kept], given[3]]))


def test_a_batch_comes_through_a_pipe_as_it_was() -> None:
    packed = pack(rich_events())
    assert vars(pickle.loads(pickle.dumps(packed))) == vars(packed)


def test_the_columns_hold_what_their_names_say(ledger: Ledger) -> None:
    event = rich_events()[2]
    ledger.append_many([an_event("x"), event])
    with ledger.reader.borrow() as connection:
        row = connection.execute(f"SELECT {COLUMNS} FROM trajlog.event WHERE position = 2", binary=True).fetchone()
    assert row is not None
    named = dict(zip(COLUMNS.split(", "), row, strict=True))
    for name in ("event_id", "run", "causation_id"):
        assert named.pop(name) == UUID(bytes=getattr(event, name))
    assert named.pop("crc") == crc(event.body)
    assert named.pop("digest") == event_digest(event)
    assert (named.pop("position"), named.pop("version")) == (2, 1)
    assert named == {name: getattr(event, name) for name in named}


def test_text_is_stored_as_postgres_text(ledger: Ledger) -> None:
    ledger.append_many(rich_events())
    with ledger.reader.borrow() as connection:
        for name in stored_texts:
            longest = connection.execute(f"SELECT max(octet_length({name})) FROM trajlog.event").fetchone()
            assert longest is not None
            assert longest[0] is None or longest[0] <= 512
        nul = connection.execute("SELECT payload::text FROM trajlog.event_json WHERE stream = 'edge/nul'").fetchone()
    assert nul == ('{"text":"a\\u0000b"}',)


def test_positions_and_versions_are_patched_into_place() -> None:
    packed = pack([an_event("a", body=b'{"x":"' + b"y" * n + b'"}') for n in range(50)])
    before = bytearray(packed.rows)
    packed.patch(2**40, [2**50 + i for i in range(50)])
    patched = bytes(packed.rows)
    for i, start in enumerate(packed.starts):
        assert patched[start + 6 : start + 14] == (2**40 + i).to_bytes(8, "big")
        assert patched[start + 18 : start + 26] == (2**50 + i).to_bytes(8, "big")
        before[start + 6 : start + 26] = patched[start + 6 : start + 26]
    assert patched == before


def test_a_row_is_what_postgres_itself_would_write(ledger: Ledger) -> None:
    event = rich_events()[2]
    ledger.append(event)
    query = f"COPY trajlog.event ({COLUMNS}) TO STDOUT (FORMAT binary)"
    with ledger.reader.borrow() as connection, connection.cursor().copy(query) as copy:
        written = b"".join(bytes(chunk) for chunk in copy)
    packed = pack([event])
    packed.patch(1, [1])
    assert HEADER + bytes(packed.rows) + TRAILER == written


def test_the_door_stands_before_the_pack() -> None:
    for event in refused_events():
        with pytest.raises(BadEvent):
            pack([an_event("a"), event])


def test_a_batch_too_large_is_refused_before_it_fills_the_memory() -> None:
    large = an_event("a", body=b'{"x":"' + b"y" * 990_000 + b'"}')
    with pytest.raises(BatchTooLarge):
        pack([large] * 50_000)
    assert len(pack([large] * (MAX_BATCH_BYTES // 991_000))) == 64


def test_a_time_outside_the_years_reads_as_a_number(ledger: Ledger) -> None:
    with ledger.reader.borrow() as connection:
        row = connection.execute("SELECT '294276-12-31'::timestamptz, '4713-01-01 BC'::timestamptz", binary=True)
        late, early = row.fetchone() or (0, 0)
    assert late > 253_402_300_799_999_999
    assert early < -62_135_596_800_000_000
