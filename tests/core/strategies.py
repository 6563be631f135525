"""Hypothesis strategies for events and for the payload of any type."""

import json
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st
from msgspec import Raw, Struct, UnsetType
from msgspec.structs import fields

from core.event import MAX_SCHEMA, MAX_SEQ, MAX_TIME, MIN_TIME, Event

ints = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=64)
ids = st.binary(min_size=16, max_size=16)

json_values = st.recursive(
    st.none() | st.booleans() | ints | floats | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=8,
)


@st.composite
def json_texts(draw: st.DrawFn, values: st.SearchStrategy[Any] = json_values) -> bytes:
    """JSON as one of the many texts that mean the same."""
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\n: ")]))
    text = json.dumps(draw(values), separators=separators, ensure_ascii=draw(st.booleans()))
    return text.encode()


bodies = json_texts(st.dictionaries(st.text(), json_values, max_size=5))

events = st.builds(
    Event,
    event_id=ids,
    stream=names,
    writer=names,
    run=ids,
    seq=st.integers(1, MAX_SEQ),
    type=st.from_regex(r"[A-Z][A-Za-z0-9]{0,63}", fullmatch=True),
    body=bodies,
    schema=st.integers(1, MAX_SCHEMA),
    occurred_at=st.none() | st.integers(MIN_TIME, MAX_TIME),
    actor=st.none() | names,
    causation_id=st.none() | ids,
    correlation_id=st.none() | names,
    conversation=st.none() | names,
    expected_version=st.none() | st.integers(0, MAX_SEQ),
)


@cache
def structs(struct: type[Struct]) -> st.SearchStrategy[Any]:
    """Any value of this struct."""
    hints = get_type_hints(struct)
    return st.builds(struct, **{field.name: values(hints[field.name]) for field in fields(struct)})


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, UnionType):
        return st.one_of([values(member) for member in arguments])
    if origin is list:
        return st.lists(values(arguments[0]), max_size=3)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
    if origin is tuple:
        return st.tuples(*map(values, arguments))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return structs(hint)
    simple = {
        str: st.text(max_size=20),
        int: ints,
        float: floats,
        bool: st.booleans(),
        NoneType: st.none(),
        UnsetType: st.just(msgspec.UNSET),
        Raw: json_texts().map(Raw),
    }
    return simple[hint]
