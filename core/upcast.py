"""Upcasters: how a payload written under an older schema number is read today.

What is stored never changes; a payload is lifted when it is read, step by step, from the number it
was written under to the current one. A type's steps must lead from every older number to the current
one, each in exactly one way: checked when the type's module is imported.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Fields = dict[str, Any]
"""A payload by field. Values come as `msgspec.Raw`, so that what no step touches stays verbatim."""


class Step(NamedTuple):
    """Lifts a payload from schema number `start` to `end`; `lift` may change its argument."""

    start: int
    end: int
    lift: Callable[[Fields], Fields]


def check_steps(type_: str, current: int, steps: Sequence[Step]) -> None:
    """ValueError if the steps have a gap, a cycle or a duplicate, or lead outside 1 to `current`."""
    starts: set[int] = set()
    for step in steps:
        name = f"upcaster {type_} {step.start} → {step.end}"
        if step.start in starts:
            raise ValueError(f"{name}: duplicate, another one starts there too")
        if step.end <= step.start:
            raise ValueError(f"{name}: cycle, it leads back")
        if step.start < 1 or step.end > current:
            raise ValueError(f"{name}: gap, it leads outside 1 to {current}")
        starts.add(step.start)
    missing = set(range(1, current)) - starts
    if missing:
        raise ValueError(f"{type_}: gap, no upcaster starts at schema {min(missing)} of {current}")


def lift(fields: Fields, schema: int, steps: Sequence[Step]) -> Fields:
    """The payload under the current schema number, given checked steps."""
    by_start = {step.start: step for step in steps}
    while schema in by_start:
        step = by_start[schema]
        fields, schema = step.lift(fields), step.end
    return fields
