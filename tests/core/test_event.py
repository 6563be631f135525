"""The door: what passes can be stored, carried and digested for ever; the rest is told why not."""

import inspect
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadEvent
from core.event import MAX_BODY_BYTES, MAX_DEPTH, MAX_TIME, MIN_TIME, Event, body_fault, check, too_deep
from tests.core.strategies import events

GOOD = Event(
    event_id=bytes(16), stream="episode/1", writer="w", run=bytes(16), seq=1, type="NoteAdded", body=b'{"text":"x"}'
)
EXHAUSTED = "maximum recursion depth exceeded while deserializing an object"


def refusal(**changed: Any) -> str:
    with pytest.raises(BadEvent) as caught:
        check(msgspec.structs.replace(GOOD, **changed))
    line = str(caught.value)
    assert "\n" not in line
    return line


@given(events)
def test_a_sound_event_passes(event: Event) -> None:
    check(event)


@pytest.mark.parametrize("name", ["stream", "writer", "actor", "correlation_id", "conversation"])
def test_names_are_short_text_that_postgres_can_hold(name: str) -> None:
    assert f"{name} is empty" in refusal(**{name: ""})
    assert f"{name} holds a NUL" in refusal(**{name: "a\0b"})
    assert f"{name} holds a lone surrogate" in refusal(**{name: "a\ud800"})
    assert f"{name} is 514 bytes, more than 512" in refusal(**{name: "é" * 257})
    check(msgspec.structs.replace(GOOD, **{name: "é" * 256}))


@pytest.mark.parametrize("name", ["", "noteAdded", "Note Added", "Note_Added", "Nöte", "N" * 65, "NoteAdded\n"])
def test_a_type_is_a_camel_case_name(name: str) -> None:
    assert "CamelCase" in refusal(type=name)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"event_id": bytes(15)}, "16 bytes"),
        ({"run": b""}, "16 bytes"),
        ({"causation_id": bytes(17)}, "16 bytes"),
        ({"seq": 0}, "seq 0"),
        ({"seq": 2**63}, "seq 9223372036854775808"),
        ({"schema": 0}, "schema 0"),
        ({"schema": 2**31}, "schema 2147483648"),
        ({"expected_version": -1}, "expected_version -1"),
        ({"expected_version": 2**63}, "expected_version"),
    ],
)
def test_numbers_and_ids_fit_their_columns(changed: dict[str, Any], why: str) -> None:
    assert why in refusal(**changed)


def test_times_lie_in_the_years_1_to_9999() -> None:
    year_148000 = 4_608_000_000_000_000_000
    for at in (MIN_TIME - 1, MAX_TIME + 1, year_148000):
        assert "years 1 to 9999" in refusal(occurred_at=at)
    for at in (MIN_TIME, MAX_TIME):
        check(msgspec.structs.replace(GOOD, occurred_at=at))


@pytest.mark.parametrize("changed", [{"owner": "owner-7"}, {"key_id": "k-7"}])
def test_an_owned_event_is_refused_until_it_can_be_encrypted(changed: dict[str, str]) -> None:
    assert "encryption" in refusal(**changed)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"x",
        b"[]",
        b"null",
        b'"text"',
        b"{",
        b'{"a":1}}',
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\\ud800"}',
        b'{"a":"\\ud800\\u0041"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\xff"}',
        b'{"\xff":1}',
        b'{"a":"\x00"}',
        b'{"a":1,}',
        b"{'a':1}",
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b'{"a":1}\x00',
        b" {}",
        b"{}\n",
    ],
)
def test_a_payload_is_one_json_object_in_utf_8(body: bytes) -> None:
    assert "payload" in refusal(body=body)


def test_an_escaped_nul_in_a_text_is_kept() -> None:
    check(msgspec.structs.replace(GOOD, body=b'{"text":"a\\u0000b"}'))


def test_a_payload_is_at_most_a_megabyte() -> None:
    fits = b'{"a":"' + b"x" * (MAX_BODY_BYTES - 8) + b'"}'
    check(msgspec.structs.replace(GOOD, body=fits))
    assert "keep large values as blobs" in refusal(body=fits[:-2] + b'x"}')


def nested(depth: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    return b'{"a":' + opening * (depth - 1) + b"1" + closing * (depth - 1) + b"}"


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"b":', b"}"), (b'[{"]}":', b"}]")])
def test_a_payload_is_nested_at_most_128_deep(opening: bytes, closing: bytes) -> None:
    each = 2 if opening.startswith(b"[{") else 1
    check(msgspec.structs.replace(GOOD, body=nested((MAX_DEPTH - 1) // each + 1, opening, closing)))
    for depth in (MAX_DEPTH + 1, 5_000, 100_000):
        assert "128 deep" in refusal(body=nested(depth, opening, closing))


def test_a_value_has_less_room_the_deeper_it_is_to_stand() -> None:
    value = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert not too_deep(value)
    assert too_deep(value, around=1)
    assert not too_deep(value[1:-1], around=1)


def test_a_caller_deep_in_its_own_stack_gets_an_answer_too() -> None:
    def deeper(left: int) -> str | None:
        return deeper(left - 1) if left else body_fault(nested(MAX_DEPTH))

    left = sys.getrecursionlimit() - len(inspect.stack(0)) - 60
    assert deeper(left) in {None, "payload is not a JSON object: " + EXHAUSTED}


def test_brackets_in_texts_do_not_count_as_nesting() -> None:
    check(msgspec.structs.replace(GOOD, body=b'{"a":"\\"' + b"[{" * 500 + b'","b":"\\\\"}'))
    check(msgspec.structs.replace(GOOD, body=b'{"a":[' + b",".join([b"[]"] * 500) + b"]}"))


@given(
    st.binary() | st.text().map(str.encode) | st.text('{}[]"\\,:1eN\u00e9 ').map(lambda text: f"{{{text}}}".encode())
)
def test_whatever_the_bytes_the_door_answers(body: bytes) -> None:
    fault = body_fault(body)
    assert fault is None or fault.startswith("payload")
