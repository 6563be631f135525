"""Places in JSON and what must stand there: how criteria say what they look at.

A path is `$`, `.name`, `["any name"]`, `[0]` and `[*]` for every member. A pattern is the value
itself; of an object only the members it names are compared; `{"$has": text}` is a part of a text,
`{"$matches": regex}` a search in it, `{"$not": pattern}` anything else.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from core.errors import BadRecord

Step = str | int | None
"""A member's name, an element's index, or None for every one."""

_STEP = re.compile(r'\.(?P<name>[^.\[\]"]+)|\[(?P<index>-?\d+)\]|\["(?P<quoted>(?:[^"\\]|\\.)*)"\]|\[\*\]')


class BadPath(BadRecord):
    """Text that is no path, or a pattern that is none."""


@lru_cache(maxsize=1_024)
def parse(path: str) -> tuple[Step, ...]:
    """The steps of a path from the root."""
    if not path.startswith("$"):
        raise BadPath(f"{path[:80]!r} is no path", mend='a path begins with $, as in $.alarms[*].time or $["a b"][0]')
    steps: list[Step] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise BadPath(f"{path[:80]!r} is no path from its character {at + 1} on")
        if found["name"] is not None:
            steps.append(found["name"])
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(None if found["quoted"] is None else msgspec.json.decode(f'"{found["quoted"]}"'))
        at = found.end()
    return tuple(steps)


def select(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Every value at the path; none where it leads nowhere."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step is None:
        members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for member in members:
            yield from select(member, rest)
    elif isinstance(value, dict):
        if str(step) in value:
            yield from select(value[str(step)], rest)
    elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        yield from select(value[step], rest)


def like(value: Any, pattern: Any) -> bool:
    """Whether the value fits the pattern."""
    if isinstance(pattern, dict):
        operators = {name for name in pattern if name.startswith("$")}
        if operators:
            return all(_operator(name, pattern[name], value) for name in operators)
        return isinstance(value, dict) and all(name in value and like(value[name], pattern[name]) for name in pattern)
    if isinstance(pattern, list):
        return isinstance(value, list) and len(value) == len(pattern) and all(map(like, value, pattern))
    return same(value, pattern)


def same(a: Any, b: Any) -> bool:
    """Equal as JSON: 25 is 25.0, true is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def changes(before: Any, after: Any, at: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """The places where two values differ, the deepest that both have or one lacks."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            if name in before and name in after:
                yield from changes(before[name], after[name], (*at, name))
            else:
                yield (*at, name)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            if index < len(before) and index < len(after):
                yield from changes(before[index], after[index], (*at, index))
            else:
                yield (*at, index)
    elif not same(before, after):
        yield at


def unchanged(before: Any, after: Any, at: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """The places in two values where they agree, the highest ones: below them everything is the same."""
    if at and same(before, after):
        yield at
    elif isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() & after.keys()):
            yield from unchanged(before[name], after[name], (*at, name))
    elif isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip(before, after, strict=False)):
            yield from unchanged(one, other, (*at, index))


def altered(value: Any, place: tuple[Step, ...]) -> Any:
    """A copy in which something else stands at that place."""
    if not place:
        return {"altered": value}
    step, rest = place[0], place[1:]
    if isinstance(value, dict):
        return {name: altered(member, rest) if name == step else member for name, member in value.items()}
    return [altered(member, rest) if index == step else member for index, member in enumerate(value)]


def covers(allowed: tuple[Step, ...], place: tuple[Step, ...]) -> bool:
    """Whether the place is what the path names, or lies in it."""
    return len(allowed) <= len(place) and all(a is None or a == p for a, p in zip(allowed, place, strict=False))


def text(steps: tuple[Step, ...]) -> str:
    """The path as it is written."""
    parts = ["$"]
    for step in steps:
        if step is None:
            parts.append("[*]")
        elif isinstance(step, int):
            parts.append(f"[{step}]")
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{msgspec.json.encode(step).decode()}]")
    return "".join(parts)


def _operator(name: str, wanted: Any, value: Any) -> bool:
    if name == "$not":
        return not like(value, wanted)
    if name not in ("$has", "$matches") or not isinstance(wanted, str):
        raise BadPath(f"{name} is no pattern", mend='known: {"$has": text}, {"$matches": regex}, {"$not": pattern}')
    if not isinstance(value, str):
        return False
    if name == "$has":
        return wanted.casefold() in value.casefold()
    try:
        return re.search(wanted, value) is not None
    except re.error as error:
        raise BadPath(f"{wanted[:80]!r} is no regular expression: {error}") from error
