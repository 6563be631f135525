"""What is compiled makes the same of the same bytes as what is not."""

import re
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from core.codec import encode
from core.event import MAX_BODY_BYTES, MAX_SCHEMA, MAX_TIME, MIN_TIME, Event
from core.identity import uuid7
from eventlog.kafka import lean
from eventlog.kafka.client import Record
from eventlog.pack import Packer
from eventlog.persister import batch
from eventlog.persister.batch import Part
from eventlog.testing import an_event, rich_events
from tests.core import strategies
from tests.eventlog.persister.records import record_of, records_of
from tests.examples import examples

native = pytest.importorskip("eventlog.native", reason="not compiled here: `make setup` does it where there is cc")

plain = st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters='"\\'), min_size=1, max_size=20)
ours = st.builds(
    Event,
    event_id=strategies.ids,
    stream=plain,
    writer=plain,
    run=strategies.ids,
    seq=st.integers(1, 10**18 - 1),
    type=st.from_regex(re.compile(r"[A-Z][A-Za-z0-9]{0,63}", re.ASCII), fullmatch=True),
    body=strategies.bodies,
    schema=st.integers(1, MAX_SCHEMA),
    occurred_at=st.none() | st.integers(MIN_TIME, MAX_TIME),
    actor=st.none() | plain,
    causation_id=st.none() | strategies.ids,
    correlation_id=st.none() | plain,
    conversation=st.none() | plain,
    expected_version=st.none() | st.integers(0, 10**18 - 1),
)


def both(records: list[Record], monkeypatch: pytest.MonkeyPatch) -> tuple[Part, Part]:
    """A part with the records, made each way."""
    made = []
    for shortcut in (native.Shortcut, None):
        with monkeypatch.context() as patch:
            patch.setattr(batch, "shortcut", shortcut or (lambda partitions: None))
            part = Part(records[0].partition, 1, records[0].offset, 1)
            part.add(records)
            made.append(part)
    return made[0], made[1]


def same(records: list[Record], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, interpreted = both(records, monkeypatch)
    for name in ("next_offset", "last", "records", "faults", "size"):
        assert getattr(compiled, name) == getattr(interpreted, name)
    for name in ("ids", "streams", "owners", "digests", "expected", "starts", "rows"):
        assert getattr(compiled.packed, name) == getattr(interpreted.packed, name)


def taken(records: list[Record]) -> int:
    """How many the compiled way takes, of those that come one after the other."""
    return cast(int, native.Shortcut(1).take(records, 0, 0, Packer())[0])


@settings(max_examples=examples(200))
@given(st.lists(st.one_of(ours, strategies.events), min_size=1, max_size=5))
def test_the_same_rows(given: list[Event]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        same(records_of(given, 3, 2), monkeypatch)


@settings(max_examples=examples(400))
@given(st.data())
def test_the_same_of_records_with_anything_done_to_them(data: st.DataObject) -> None:
    records = records_of([data.draw(ours) for _ in range(3)])
    place = data.draw(st.integers(0, 2))
    value = bytearray(records[place].value or b"")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(value) - 1))
        match data.draw(st.sampled_from(["put", "cut", "twice"])):
            case "put":
                value[at] = data.draw(st.one_of(st.sampled_from(b'"\\{}[]:,0-ZT\x00\x7f\xc3'), st.integers(0, 255)))
            case "cut":
                del value[at : at + data.draw(st.integers(1, 40))]
            case "twice":
                value[at:at] = value[at : at + data.draw(st.integers(1, 80))]
        if not value:
            return
    records[place] = Record(0, place, records[place].key, bytes(value))
    with pytest.MonkeyPatch.context() as monkeypatch:
        same(records, monkeypatch)


GOOD = encode(an_event("episode/a", occurred_at=0, actor="planner", causation_id=uuid7(), expected_version=1))
_NUMBERS = (b"0", b"00", b"01", b"-1", b"1.0", b"1e3", b"9" * 18, b"9" * 19, b"", b"null")
_TEXTS = (b'""', b"null", b'"a\\nb"', b'"a\tb"', b'"a\x7f"', b'"a\xff"', b'"p","owner":"o"', b'"a')
_VALUES = (b"1e999", b"NaN", b'"\xff"', b'"\\ud800"', b"[" * 129 + b"]" * 129, b"1}, 2")
_EDGES = {
    b'"seq":1': [b'"seq":' + each for each in _NUMBERS],
    b'"expected_version":1': [b'"expected_version":' + each for each in _NUMBERS],
    b'"actor":"planner"': [b'"actor":' + each for each in _TEXTS],
    b'"payload":{': [b'"payload":{"a":%s,' % each for each in _VALUES],
    b"1970-01-01T00:00:00": [b"1970-02-30T00:00:00", b"1970-01-01T24:00:00", b"1970-01-01t00:00:00", b"0" * 19],
    b".000000Z": [b".000000+00:00", b".00000Z", b".0000000Z", b"Z", b".00000xZ", b".000000z"],
    b'"type":"': [b'"type":"a b', b'"schema":0,"type":"', b'"type":"X","type":"', b'"type":"' + b"X" * 65],
    b'"causation_id":"': [b'"causation_id":"0', b'"causation_id":null,"old":"', b'"causation_id":"A'],
    b'"payload":': [b'"payload":{},"payload":', b'"payload": ', b'"new":{"payload":{}},"payload":', b'"x":1,"y":'],
    b"}": [b"} ", b"}}", b"", b"]"],
    b"{": [b" {", b"[", b""],
}


def test_the_same_at_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = [None, b"", b"{", b"{}", b"}}", b"[" * 70_000, GOOD[:-1]]
    odd += [GOOD.replace(old, new) for old, news in _EDGES.items() for new in news]
    assert all(old in GOOD for old in _EDGES)
    records = [Record(0, i, b"episode/a", value) for i, value in enumerate(odd)]
    same([*records, Record(0, 100, b"episode/b", GOOD), Record(0, 101, None, GOOD)], monkeypatch)
    for event in rich_events():
        same([record_of(event)], monkeypatch)
    large = encode(an_event("a", body=b'{"text":"' + b"x" * (MAX_BODY_BYTES - 11) + b'"}'))
    same([Record(0, 0, b"a", large), Record(0, 1, b"a", large.replace(b"xx", b"xxx", 1))], monkeypatch)


@settings(max_examples=examples(100))
@given(st.lists(ours, min_size=1, max_size=5))
def test_what_our_writers_send_is_taken(given: list[Event]) -> None:
    assert taken(records_of(given)) == len(given)


def test_it_stops_where_a_record_is_not_new() -> None:
    records = records_of([an_event("episode/a", seq=i) for i in range(1, 5)])
    assert taken([records[0], records[2], records[1], records[3]]) == 2
    assert taken([records[0], Record(1, 1, records[1].key, records[1].value)]) == 1


def test_more_names_than_it_remembers(monkeypatch: pytest.MonkeyPatch) -> None:
    same(records_of([an_event(f"episode/{i}", type=f"Type{i}") for i in range(5_000)]), monkeypatch)


# -- a batch of Kafka's ----------------------------------------------------------------------------

Written = list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]]


def kafka_batch(records: Written) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=1, producer_epoch=1, base_sequence=0,
        batch_size=1 << 24,
    )  # fmt: skip
    for offset, (key, value, headers) in enumerate(records):
        builder.append(offset, 1_700_000_000_000 + offset, key, value, headers)
    return bytes(builder.build())


def outcome(read: Callable[[Any, int], list[Record]], data: bytes) -> list[Record] | str:
    try:
        return read(DefaultRecordBatch(data), 0)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def agree(data: bytes) -> None:
    compiled = outcome(lean.decode, data)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(lean, "compiled", lambda: None)
        assert outcome(lean.decode, data) == compiled


raw = st.none() | st.binary(max_size=200)
sent: st.SearchStrategy[Written] = st.lists(st.tuples(raw, raw, st.just([])), min_size=1, max_size=4)


@settings(max_examples=examples(100))
@given(sent)
def test_the_same_records(records: Written) -> None:
    data = kafka_batch(records)
    agree(data)
    read = DefaultRecordBatch(data)
    found = native.unpack(data, read._pos, len(records), read.base_offset, 0)
    assert [(record.key, record.value) for record in found] == [(key, value) for key, value, _ in records]


@settings(max_examples=examples(300))
@given(sent, st.data())
def test_the_same_of_a_batch_with_anything_done_to_it(records: Written, data: st.DataObject) -> None:
    whole = bytearray(kafka_batch(records))
    first = DefaultRecordBatch(bytes(whole))._pos
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(first, len(whole) - 1))] = data.draw(st.integers(0, 255))
    agree(bytes(whole))


def test_headers_are_left_to_the_other() -> None:
    data = kafka_batch([(b"k", b"v", [("trace", b"1")])])
    assert native.unpack(data, DefaultRecordBatch(data)._pos, 1, 0, 0) is None
    agree(data)
