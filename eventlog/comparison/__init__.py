"""Two episodes side by side: where they part, and what each did that the other did not.

Calls are aligned by longest common subsequence, first those that are the same, then, in what lies
between, those of the same name: their arguments are compared path by path. Pure.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from eventlog.comparison.align import common
from eventlog.comparison.calls import Call, calls_of, recorded
from eventlog.comparison.differences import Difference, differences
from eventlog.timeline import Told

__all__ = ["Call", "Comparison", "Difference", "Pair", "Place", "Side", "align", "calls_of", "compare", "recorded"]

Kind = Literal[
    "same",  # equal, to the last byte that is compared
    "arguments",  # the same name, asked otherwise
    "feedback",  # the same call, answered otherwise
    "state",  # the same call and answer, another state afterwards
    "only_a",  # no counterpart in b
    "only_b",  # no counterpart in a
]


class Place(msgspec.Struct, frozen=True):
    """A call by its place: `episode@version` quotes it; `answer` is the version of its feedback."""

    version: int
    step: int
    answer: int | None


class Pair(msgspec.Struct, frozen=True):
    """A call of either side, or of both. Of several differences, `kind` names the gravest."""

    kind: Kind
    name: str
    a: Place | None
    b: Place | None
    arguments: list[Difference] = []
    feedback: list[Difference] = []
    state: Difference | None = None


class Side(msgspec.Struct, frozen=True):
    """How one of the two went."""

    episode: str
    task: str | None = None
    end: str | None = None
    verdict: str | None = None
    calls: int = 0


class Comparison(msgspec.Struct, frozen=True):
    """`differs` names what is not the same: calls, end, verdict. `first_divergence` is the index of the
    first pair that is not `same`, None if there is none; `shared` counts the calls that both made,
    arguments included."""

    a: Side
    b: Side
    differs: list[Literal["calls", "end", "verdict"]]
    first_divergence: int | None
    shared: int
    masks: list[str]
    pairs: list[Pair]


def compare(a: tuple[Side, Iterable[Told]], b: tuple[Side, Iterable[Told]], masks: tuple[str, ...] = ()) -> Comparison:
    """Compare two episodes, given each one's side and events; `masks` name what is not compared."""
    return align((a[0], calls_of(a[1])), (b[0], calls_of(b[1])), masks)


def align(a: tuple[Side, list[Call]], b: tuple[Side, list[Call]], masks: tuple[str, ...] = ()) -> Comparison:
    """The same, given their calls."""
    ours, theirs = a[1], b[1]
    same = common([call.key(masks) for call in ours], [call.key(masks) for call in theirs])
    pairs: list[Pair] = []
    i = j = 0
    for x, y in [*same, (len(ours), len(theirs))]:
        pairs += _between(ours[i:x], theirs[j:y], masks)
        if x < len(ours) and y < len(theirs):
            pairs.append(_pair(ours[x], theirs[y], masks, same=True))
        i, j = x + 1, y + 1
    first = next((index for index, pair in enumerate(pairs) if pair.kind != "same"), None)
    left = msgspec.structs.replace(a[0], calls=len(ours))
    right = msgspec.structs.replace(b[0], calls=len(theirs))
    differs: list[Literal["calls", "end", "verdict"]] = [] if first is None else ["calls"]
    differs += ["end"] if left.end != right.end else []
    differs += ["verdict"] if left.verdict != right.verdict else []
    return Comparison(left, right, differs, first, len(same), list(masks), pairs)


def _between(ours: list[Call], theirs: list[Call], masks: tuple[str, ...]) -> list[Pair]:
    """The calls between two that are the same: paired by name where they can be."""
    pairs: list[Pair] = []
    i = j = 0
    alike = common([call.name for call in ours], [call.name for call in theirs])
    for x, y in [*alike, (len(ours), len(theirs))]:
        pairs += [Pair("only_a", call.name, _place(call), None) for call in ours[i:x]]
        pairs += [Pair("only_b", call.name, None, _place(call)) for call in theirs[j:y]]
        if x < len(ours) and y < len(theirs):
            pairs.append(_pair(ours[x], theirs[y], masks))
        i, j = x + 1, y + 1
    return pairs


def _pair(a: Call, b: Call, masks: tuple[str, ...], *, same: bool = False) -> Pair:
    arguments = [] if same else list(differences(a.arguments, b.arguments, masks))
    feedback = _feedback(a, b, masks)
    state = None
    if a.state is not None and b.state is not None and a.state != b.state:
        state = Difference("$", a.state, b.state)
    kind: Kind = "arguments" if arguments else "feedback" if feedback else "state" if state else "same"
    return Pair(kind, a.name, _place(a), _place(b), arguments, feedback, state)


def _feedback(a: Call, b: Call, masks: tuple[str, ...]) -> list[Difference]:
    if a.raw == b.raw:
        return []
    if not a.raw:
        return [Difference("$", b=b.feedback, absent="a")]
    if not b.raw:
        return [Difference("$", a=a.feedback, absent="b")]
    return list(differences(a.feedback, b.feedback, masks))


def _place(call: Call) -> Place:
    return Place(call.version, call.step, call.answer)
