"""A comparison as rows of two cells to read, the same in every place that shows one.

A call's cell begins with its version, so that it can be quoted (EP@N). Values are folded, and so are
runs of calls that are the same. Pure: texts still hold what was recorded, control characters too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from eventlog.comparison import Comparison, Difference, Pair, Place
from eventlog.timeline import Told, line
from eventlog.wording import show

MARKS: Final = {"same": " ", "arguments": "~", "feedback": "!", "state": "!", "only_a": "-", "only_b": "+"}
"""What stands before a call's row."""

WORDS: Final = {
    "arguments": "asked otherwise",
    "feedback": "answered otherwise",
    "state": "another state afterwards",
    "only_a": "only in a",
    "only_b": "only in b",
}

AROUND: Final = 2
"""Calls that are the same shown before and after one that is not."""

PLACES: Final = 8
"""Places where a call's arguments or feedback differ that are shown; JSON has all."""

NOTHING: Final = "(nothing)"


Events = Mapping[int, Told]


class Row(msgspec.Struct, frozen=True):
    """`a` and `b` side by side under `mark`; with `wide`, `a` goes across both."""

    mark: str
    a: str
    b: str = ""
    wide: bool = False


def rows(found: Comparison, a: Iterable[Told], b: Iterable[Told], *, whole: bool = False) -> Iterator[Row]:
    """The rows of a comparison of these events. `whole`: the calls that are the same, too."""
    ours, theirs = ({event.version: event for event in events} for events in (a, b))
    hidden: list[Pair] = []
    for index, pair in enumerate(found.pairs):
        if not whole and _far(found.pairs, index):
            hidden.append(pair)
            continue
        yield from _folded(hidden, ours, theirs)
        hidden = []
        if index == found.first_divergence:
            yield Row(" ", f"first divergence: {WORDS[pair.kind]}", wide=True)
        yield from _pair(pair, ours, theirs)
    yield from _folded(hidden, ours, theirs)
    for name, left, right in (("end", found.a.end, found.b.end), ("verdict", found.a.verdict, found.b.verdict)):
        yield Row("~" if left != right else " ", f"{name} {left or '-'}", f"{name} {right or '-'}")


def _far(pairs: Sequence[Pair], index: int) -> bool:
    """Whether all calls around this one are the same, and enough of them."""
    near = pairs[max(0, index - AROUND) : index + AROUND + 1]
    return all(pair.kind == "same" for pair in near)


def _folded(hidden: list[Pair], a: Events, b: Events) -> Iterator[Row]:
    if len(hidden) < 2:
        for pair in hidden:
            yield from _pair(pair, a, b)
        return
    first, last = hidden[0], hidden[-1]
    assert first.a and first.b and last.a and last.b
    left, right = (f"@{x.version} to @{y.version}" for x, y in ((first.a, last.a), (first.b, last.b)))
    yield Row(" ", f"… {len(hidden):,} calls the same, {left}", f"… {right}")


def _pair(pair: Pair, a: Events, b: Events) -> Iterator[Row]:
    alone = pair.a is None or pair.b is None
    yield Row(MARKS[pair.kind], _call(pair.a, a, alone), _call(pair.b, b, alone))
    yield from _differences(pair.arguments, "")
    if any(difference.path in ("$", "$.kind") for difference in pair.feedback):
        yield Row(" ", _answer(pair.a, a), _answer(pair.b, b))
    else:
        yield from _differences(pair.feedback, "→ ")
    if pair.state is not None:
        yield Row(" ", f"  state {pair.state.a}", f"  state {pair.state.b}")


def _differences(found: list[Difference], arrow: str) -> Iterator[Row]:
    for one in found[:PLACES]:
        left = NOTHING if one.absent == "a" else show(one.a)
        right = NOTHING if one.absent == "b" else show(one.b)
        yield Row(" ", f"  {arrow}{one.path}: {left}", f"  {arrow}{one.path}: {right}")
    if len(found) > PLACES:
        yield Row(" ", f"  {arrow}… {len(found) - PLACES:,} more places", "")


def _call(place: Place | None, events: Events, alone: bool) -> str:
    if place is None:
        return ""
    said = f"@{place.version} {line(events[place.version]).action}"
    return f"{said} {_answer(place, events).strip()}" if alone else said


def _answer(place: Place | None, events: Events) -> str:
    if place is None:
        return ""
    if place.answer is None:
        return f"  → {NOTHING}"
    return f"  → {line(events[place.answer]).action} @{place.answer}"
