"""The names that would have been right where msgspec refused one: it says only which was wrong, and where."""

import re
from collections.abc import Iterable, Iterator
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

_STEP = re.compile(r"\.([^.\[`]+)|\[([^\]]*)\]")


def mend(said: str, type_: Any) -> str | None:
    """What to do about msgspec's message on a value of `type_`; None if it is of something else than such a name."""
    known = choices(said, type_)
    return f"there are {', '.join(known)}" if known else None


def choices(said: str, type_: Any) -> list[str]:
    """What a value of `type_` may be at the place that the message names, in the order it is declared."""
    what, _, place = said.partition(" - at `$")
    if "Invalid enum value" not in what:
        return []
    types = list(_members([type_]))
    for field, _ in _STEP.findall(place):
        types = list(_members(_below(types, field)))
    return list(dict.fromkeys(str(value) for each in types for value in _values(each)))


def _members(types: Iterable[Any]) -> Iterator[Any]:
    """Unions and annotations taken apart."""
    for each in types:
        origin = get_origin(each)
        if origin is Annotated:
            yield from _members(get_args(each)[:1])
        elif origin in (Union, UnionType):
            yield from _members(get_args(each))
        else:
            yield each


def _below(types: Iterable[Any], field: str) -> Iterator[Any]:
    """The types of a field, or, without its name, of what is in a list or a dictionary."""
    for each in types:
        if isinstance(each, type) and issubclass(each, msgspec.Struct):
            yield from (known.type for known in msgspec.structs.fields(each) if known.encode_name == field)
        elif not field:
            yield from get_args(each)[-1:] if get_origin(each) is dict else get_args(each)


def _values(each: Any) -> Iterable[Any]:
    if get_origin(each) is Literal:
        return get_args(each)
    return [member.value for member in each] if isinstance(each, type) and issubclass(each, Enum) else ()
