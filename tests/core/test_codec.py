"""The wire form: nothing of an event is lost on it, and nothing that is no event gets through."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.codec import decode, encode, envelope
from core.errors import BadEvent, TrajlogError
from core.event import Event
from tests.core.strategies import events

GOOD = Event(
    event_id=bytes(16), stream="episode/1", writer="w", run=bytes(16), seq=1, type="NoteAdded", body=b'{"text":"x"}'
)


@given(events)
def test_decoding_what_was_encoded_gives_the_same_event(event: Event) -> None:
    assert decode(encode(event)) == event


@given(events)
def test_an_event_is_written_as_msgspec_writes_its_envelope(event: Event) -> None:
    wire = encode(event)
    assert wire == msgspec.json.encode(envelope(wire))


@pytest.mark.parametrize("body", [b'{ "a" : 1.0,\n"a":1e0 }', b'{"t":"\\u00e9\\/\\u0000"}', '{"t":"é😀"}'.encode()])
def test_a_payload_travels_byte_for_byte(body: bytes) -> None:
    assert decode(encode(msgspec.structs.replace(GOOD, body=body))).body == body


def test_the_wire_is_one_line_of_json_with_text_ids_and_times() -> None:
    event = msgspec.structs.replace(GOOD, occurred_at=6, expected_version=0)
    wire = encode(event)
    assert json.loads(wire) == {
        "event_id": "00000000-0000-0000-0000-000000000000",
        "stream": "episode/1",
        "writer": "w",
        "run": "00000000-0000-0000-0000-000000000000",
        "seq": 1,
        "type": "NoteAdded",
        "occurred_at": "1970-01-01T00:00:00.000006Z",
        "expected_version": 0,
        "payload": {"text": "x"},
    }


def test_envelope_fields_of_a_newer_writer_are_ignored() -> None:
    wire = json.loads(encode(GOOD)) | {"region": {"name": "eu"}, "hops": [1, 2]}
    assert decode(json.dumps(wire, separators=(",", ":")).encode()) == GOOD


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("event_id", "not-a-uuid"),
        ("run", "00000000-0000-0000-0000-00000000000"),
        ("causation_id", ""),
        ("occurred_at", "yesterday"),
        ("occurred_at", "2026-01-02T03:04:05"),
        ("occurred_at", "148000-01-01T00:00:00Z"),
        ("seq", "1"),
        ("seq", 1.5),
        ("stream", None),
        ("stream", 7),
        ("schema", None),
        ("payload", "text"),
        ("payload", None),
        ("expected_version", -1),
    ],
)
def test_a_field_that_does_not_fit_is_named(field: str, value: object) -> None:
    with pytest.raises(BadEvent, match=field):
        decode(json.dumps(json.loads(encode(GOOD)) | {field: value}).encode())


@pytest.mark.parametrize("field", ["event_id", "stream", "writer", "run", "seq", "type", "payload"])
def test_a_missing_field_is_named(field: str) -> None:
    wire = json.loads(encode(GOOD))
    del wire[field]
    with pytest.raises(BadEvent, match=field):
        decode(json.dumps(wire).encode())


def test_an_event_that_the_door_refuses_is_not_encoded() -> None:
    with pytest.raises(BadEvent):
        encode(msgspec.structs.replace(GOOD, body=b'{"a":"\xff"}'))


@given(st.binary())
def test_any_bytes_decode_or_are_one_error(data: bytes) -> None:
    answers(data)


@given(events, st.data())
def test_a_damaged_event_decodes_or_is_one_error(event: Event, data: st.DataObject) -> None:
    wire = bytearray(encode(event))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(wire) - 1))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                wire[place] = data.draw(st.integers(0, 255))
            case "cut":
                del wire[place : place + data.draw(st.integers(1, 20))]
                wire = wire or bytearray(b"{")
            case "insert":
                wire[place:place] = data.draw(st.binary(min_size=1, max_size=8))
    answers(bytes(wire))


@pytest.mark.parametrize("place", [b'"payload":', b'"stream":', b'"later":'])
def test_nesting_that_would_exhaust_the_stack_is_one_error(place: bytes) -> None:
    wire = encode(GOOD).replace(b'"payload":{"text":"x"}', b'"payload":{"text":"x"},"later":1')
    for depth in (200, 2_000, 200_000):
        head, tail = wire.split(place, 1)
        answers(head + place + b"[" * depth + b"]" * depth + b"," + tail)
        answers(head + place + b"[" * depth)


def answers(data: bytes) -> None:
    try:
        event = decode(data)
    except TrajlogError as error:
        assert "\n" not in str(error)
    else:
        assert decode(encode(event)) == event
