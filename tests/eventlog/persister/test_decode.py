"""Whatever lies in Kafka is a row or a fault: nothing raises, and what is a row is what the log packs."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.codec import decode, encode
from core.errors import BadEvent
from core.event import MAX_BODY_BYTES, Event
from eventlog.kafka.client import Record
from eventlog.kafka.partitioner import partition_of
from eventlog.pack import Packer, pack
from eventlog.persister.batch import Part
from eventlog.persister.decode import MAX_RECORD_BYTES, Fault, take
from eventlog.persister.quarantine import REASONS
from eventlog.testing import an_event, rich_events
from tests.core.strategies import events
from tests.eventlog.persister.records import record_of, records_of
from tests.examples import examples


def taken(record: Record, partitions: int = 1) -> Fault | None:
    packer = Packer()
    fault = take(record, packer, partitions)
    assert len(packer) == (fault is None)
    if fault is not None:
        assert fault.reason in REASONS
        for text in (fault.detail, fault.stream or ""):
            assert "\0" not in text
            text.encode()
        assert "\n" not in fault.detail
        assert 0 < len(fault.detail) <= 500
    return fault


def wire(**changed: Any) -> bytes:
    fields = json.loads(encode(an_event("episode/a")))
    fields.update(changed)
    return json.dumps({name: value for name, value in fields.items() if value is not ...}).encode()


def fault_of(value: bytes | None, key: bytes | None = b"episode/a") -> Fault:
    fault = taken(Record(0, 7, key, value))
    assert fault is not None
    return fault


@settings(max_examples=examples(100))
@given(events)
def test_a_row_is_what_the_log_itself_would_pack(event: Event) -> None:
    try:
        data = encode(event)
    except BadEvent:
        return
    packer = Packer()
    assert take(record_of(event), packer, 1) is None
    ours, theirs = packer.packed(), pack([decode(data)])
    assert bytes(ours.rows) == bytes(theirs.rows)
    for name in ("ids", "streams", "owners", "digests", "expected", "starts"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_every_field_is_in_the_row() -> None:
    packer, sent = Packer(), rich_events()
    for event in sent:
        assert take(record_of(event), packer, 1) is None
    assert bytes(packer.packed().rows) == bytes(pack(sent).rows)


@settings(max_examples=examples(200))
@given(st.one_of(st.none(), st.binary(max_size=200)), st.one_of(st.none(), st.binary(max_size=40)))
def test_any_bytes_are_a_fault_or_an_event(value: bytes | None, key: bytes | None) -> None:
    taken(Record(0, 1, key, value))


@settings(max_examples=examples(200))
@given(st.data())
def test_a_record_with_anything_done_to_it_is_taken_as_the_codec_takes_it(data: st.DataObject) -> None:
    value = bytearray(encode(an_event("episode/a", actor="é", conversation="c")))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(value) - 1))
        value[place] = data.draw(st.integers(0, 255))
    fault = taken(Record(0, 1, b"episode/a", bytes(value)))
    try:
        event = decode(bytes(value))
    except BadEvent:
        assert fault is not None
    else:
        assert (fault is None) == (event.stream == "episode/a")


@pytest.mark.parametrize("value", [b"", b"not json", b"\xff\xfe", b'{"event_id": ', b"{} {}", b"[" * 100_000])
def test_what_is_not_json_is_said(value: bytes) -> None:
    assert fault_of(value).reason == "not_json"


@pytest.mark.parametrize("name", ["event_id", "stream", "writer", "run", "seq", "type", "payload"])
def test_a_field_that_is_missing_is_named(name: str) -> None:
    fault = fault_of(wire(**{name: ...}))
    assert fault.reason == "missing_fields"
    assert name in fault.detail


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"event_id": "x"}, "not a UUID"),
        ({"run": "x"}, "run"),
        ({"seq": "one"}, "int"),
        ({"seq": 0}, "seq 0"),
        ({"type": "no type"}, "CamelCase"),
        ({"occurred_at": "148000-01-01T00:00:00Z"}, "148000"),
        ({"occurred_at": "2026-02-30T00:00:00.000000Z"}, "date"),
        ({"causation_id": "z"}, "causation_id"),
        ({"actor": "a\0b"}, "NUL"),
        ({"payload": [1]}, "payload"),
        ({"owner": "o"}, "encryption"),
        ({"expected_version": -1}, "expected_version"),
        ({"schema": 2**40}, "schema"),
    ],
)
def test_an_event_that_the_door_refuses_is_quarantined_with_the_doors_words(changed: dict[str, Any], word: str) -> None:
    fault = fault_of(wire(**changed))
    assert fault.reason == "bad_event"
    assert word in fault.detail
    assert fault.stream == "episode/a"


def test_a_record_without_value_is_no_event() -> None:
    assert fault_of(None).reason == "null_value"
    assert fault_of(None, None).reason == "null_value"


def test_a_stream_with_a_nul_or_of_4000_bytes_is_refused() -> None:
    nul = fault_of(wire(stream="episode/\0"), b"episode/\0")
    assert (nul.reason, nul.stream) == ("bad_event", None)
    assert "NUL" in nul.detail
    long = "episode/" + "x" * 4_000
    fault = fault_of(wire(stream=long), long.encode())
    assert fault.reason == "bad_event"
    assert "more than 512" in fault.detail
    assert fault.stream == long


def test_what_is_too_large_is_not_even_read() -> None:
    assert fault_of(b"{" * 20_000_000).reason == "too_large"
    body = {"text": "x" * MAX_BODY_BYTES}
    fault = fault_of(wire(payload=body))
    assert fault.reason == "too_large"
    assert fault.event_id is not None
    assert MAX_RECORD_BYTES > MAX_BODY_BYTES + 10_000


def test_a_key_that_is_not_the_stream_is_misrouted() -> None:
    for key in (b"episode/b", None, b"\xff"):
        fault = fault_of(wire(), key)
        assert fault.reason == "misrouted"
        assert fault.event_id is not None
        assert fault.stream == "episode/a"


def test_a_key_in_the_wrong_partition_is_misrouted() -> None:
    right = partition_of(b"episode/a", 5)
    for partition in range(5):
        fault = taken(Record(partition, 1, b"episode/a", wire()), partitions=5)
        assert (fault is None) == (partition == right)
        assert fault is None or f"belongs in partition {right}" in fault.detail


def test_a_part_drops_what_lies_before_it_and_takes_holes_as_they_are() -> None:
    sent = [an_event("episode/a") for _ in range(5)]
    part = Part(0, 1, 10, 1)
    part.add(records_of(sent, first=6, step=3))  # at 6, 9, 12, 15, 18
    assert part.packed.ids == [event.event_id for event in sent[2:]]
    assert (part.expected, part.next_offset) == (10, 19)


def test_halves_hold_the_same_records_in_order() -> None:
    sent = records_of([an_event("episode/a") for _ in range(6)])
    sent[2] = msgspec.structs.replace(sent[2], value=b"poison")
    part = Part(0, 1, 0, 1)
    part.add(sent)
    first, second = part.halves()
    assert [r.offset for r in first.all] + [r.offset for r in second.all] == list(range(6))
    assert (first.expected, first.next_offset, second.expected, second.next_offset) == (0, 3, 3, 6)
    assert (len(first.faults), len(second.faults)) == (1, 0)
