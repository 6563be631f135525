"""Where two values differ: every place, by its path, and nothing that only looks different."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.comparison.differences import Difference, canonical, differences

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | inner.map(lambda value: msgspec.json.encode(value).decode())
    ),
    max_leaves=8,
)
masks = st.sampled_from([(), ("time",), ("ids",), ("time", "ids")])


def found(a: Any, b: Any, *masks: str) -> list[Difference]:
    return list(differences(a, b, masks))


@given(values, values, masks)
def test_values_have_the_same_form_exactly_where_nothing_differs(a: Any, b: Any, masks: tuple[str, ...]) -> None:
    assert (canonical(a, masks) == canonical(b, masks)) == (list(differences(a, b, masks)) == [])


@given(values, masks)
def test_a_value_does_not_differ_from_itself(a: Any, masks: tuple[str, ...]) -> None:
    assert found(a, msgspec.json.decode(msgspec.json.encode(a)), *masks) == []


def test_each_place_is_named_by_its_path() -> None:
    a = {"to": "Ann", "when": {"day": 1, "hour": [7, 30]}, "x y": 1, "only": 0}
    b = {"to": "Bob", "when": {"day": 1, "hour": [7, 45, 0]}, "x y": 2, "more": None}
    assert found(a, b) == [
        Difference("$.to", "Ann", "Bob"),
        Difference("$.when.hour[1]", 30, 45),
        Difference("$.when.hour[2]", b=0, absent="a"),
        Difference('$["x y"]', 1, 2),
        Difference("$.only", a=0, absent="b"),
        Difference("$.more", b=None, absent="a"),
    ]


def test_what_is_absent_is_left_out_of_the_json() -> None:
    assert msgspec.json.encode(found({}, {"a": None})[0]) == b'{"path":"$.a","b":null,"absent":"a"}'


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ([1], [True], False),
        (None, "", False),
        (10**30, 1e30, False),
        ('{"a": 1, "b": 2}', '{"b":2,"a":1.0}', True),
        ('{"a": 1}', {"a": 1}, True),
        ('["{\\"a\\": 1}"]', '["{\\"a\\":1}"]', True),
        ("{not json", "{not  json", False),
        ("1", 1, False),
        ("[" * 5_000 + "]" * 5_000, "[" * 5_000 + " " + "]" * 5_000, False),
        ("[" * 300 + "]" * 300, "[" * 300 + "]" * 300, True),
    ],
)
def test_equal_means_equal_as_json(a: Any, b: Any, same: bool) -> None:
    assert (found(a, b) == []) is same
    assert (canonical(a) == canonical(b)) is same


def test_a_difference_inside_a_text_that_is_json_has_its_path() -> None:
    assert found({"result": '{"seats": [1, 2]}'}, {"result": '{"seats": [1, 3]}'}) == [
        Difference("$.result.seats[1]", 2, 3)
    ]


@pytest.mark.parametrize(
    ("mask", "a", "b"),
    [
        ("time", "sent at 2026-01-02T03:04:05Z", "sent at 2026-11-12 13:14:15.5 UTC"),
        ("time", "07:00:01", "23:59:59.25"),
        ("time", 1767323045, 1767323099.5),
        ("ids", "018f3c2e-7b1a-7c3d-9e4f-001122334455", "deadbeef-7b1a-7c3d-9e4f-001122334455"),
        ("ids", "call_AbC123xyz", "call_ZZZ999"),
        ("ids", {"id": "4f5e6d7c8b9a0f1e"}, {"id": "00000000000000a1"}),
    ],
)
def test_masks_hide_what_differs_in_every_run(mask: str, a: Any, b: Any) -> None:
    assert found(a, b)
    assert found(a, b, mask) == []
    assert canonical(a, (mask,)) == canonical(b, (mask,))


def test_masks_hide_nothing_else() -> None:
    assert found("at 2026-01-02T03:04:05Z to Ann", "at 2026-01-02T03:04:06Z to Bob", "time")
    assert found("decade", "facade", "ids")
    assert found({"amount": 100}, {"amount": 200}, "time", "ids")
