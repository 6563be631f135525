"""Where two JSON values differ, path by path; masks hide what differs in every run."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

MASKS: Final[dict[str, re.Pattern[str]]] = {
    "time": re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?(Z|UTC|[A-Z]{3,4}|[+-]\d\d:?\d\d))?|\b\d\d:\d\d:\d\d(\.\d+)?\b"
        r"|\b1[0-9]{9}(\.\d+|\d{3}|\d{6})?\b"
    ),
    "ids": re.compile(
        r"\b[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\b(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b"
        r"|\b(call|chatcmpl|toolu|req|msg|run|sess)[_-][A-Za-z0-9]{6,}\b"
    ),
}
"""What `--mask` can hide: times (RFC 3339 and alike, clock times, Unix times), and generated ids
(UUIDs, hex of 12 to 64 digits, prefixed ones of model servers). Version 1."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LEVELS = 2
"""How often a text may be JSON inside JSON before it is taken for a text."""
_DEEPEST = 100
"""Brackets within brackets that a text which is JSON may have to be looked into."""


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One place where two values differ. `a` and `b` are what stands there; `absent` names the side
    that has nothing there."""

    path: str
    a: Any = msgspec.UNSET
    b: Any = msgspec.UNSET
    absent: str | None = None


def canonical(value: Any, masks: tuple[str, ...] = ()) -> bytes:
    """The same bytes for two values exactly where `differences` finds none between them."""
    return msgspec.json.encode(_normal(value, masks, _LEVELS), order="deterministic")


def differences(a: Any, b: Any, masks: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Every place where `a` and `b` differ once masked. A text that is JSON is looked into; 1 and 1.0
    are equal, true and 1 are not."""
    return _differences(a, b, masks, "$", (_LEVELS, _LEVELS))


def _normal(value: Any, masks: tuple[str, ...], levels: int) -> Any:
    value, levels = _opened(value, levels)
    if isinstance(value, dict):
        return {key: _normal(item, masks, levels) for key, item in value.items()}
    if isinstance(value, list):
        return [_normal(item, masks, levels) for item in value]
    return _masked(value, masks)


def _masked(value: Any, masks: tuple[str, ...]) -> Any:
    """A single value with what the masks hide replaced by `<time>`, `<ids>`."""
    if isinstance(value, str):
        for name in masks:
            value = MASKS[name].sub(f"<{name}>", value)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        for name in masks:
            if MASKS[name].fullmatch(repr(value)):
                return f"<{name}>"
        if isinstance(value, float) and value.is_integer():
            return int(value)
    return value


def _differences(a: Any, b: Any, masks: tuple[str, ...], path: str, levels: tuple[int, int]) -> Iterator[Difference]:
    a, left = _opened(a, levels[0])
    b, right = _opened(b, levels[1])
    levels = left, right
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            below = f"{path}.{key}" if _PLAIN.fullmatch(key) else f"{path}[{msgspec.json.encode(key).decode()}]"
            if key not in b:
                yield Difference(below, a=a[key], absent="b")
            elif key not in a:
                yield Difference(below, b=b[key], absent="a")
            else:
                yield from _differences(a[key], b[key], masks, below, levels)
    elif isinstance(a, list) and isinstance(b, list):
        for i in range(max(len(a), len(b))):
            below = f"{path}[{i}]"
            if i >= len(b):
                yield Difference(below, a=a[i], absent="b")
            elif i >= len(a):
                yield Difference(below, b=b[i], absent="a")
            else:
                yield from _differences(a[i], b[i], masks, below, levels)
    else:
        x, y = _masked(a, masks), _masked(b, masks)
        if x != y or isinstance(x, bool) != isinstance(y, bool):
            yield Difference(path, a, b)


def _opened(value: Any, levels: int) -> tuple[Any, int]:
    """What a text holds that is JSON, and how many more may be opened; anything else as it is."""
    inside = _container(value, levels)
    return (value, levels) if inside is None else (inside, levels - 1)


def _container(text: Any, levels: int) -> Any:
    """The object or array that a text is the JSON of; None for anything else."""
    if levels == 0 or not isinstance(text, str) or not text.startswith(("{", "[")):
        return None
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return None
    return None if _deep(value, _DEEPEST) else value


def _deep(value: Any, left: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left == 0 or any(_deep(item, left - 1) for item in items)
