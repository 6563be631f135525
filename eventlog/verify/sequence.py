"""One stream's versions, against its head and the damage that is known already. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

END: Final = 1 << 64


class Head(NamedTuple):
    """What `trajlog.stream` says of a stream."""

    version: int
    first: int
    last: int


class Place(NamedTuple):
    """An event of the stream: the `position` it was committed at, its `version`, and where it is `at` now."""

    position: int
    version: int
    at: int


class Fault(NamedTuple):
    """`at` and `version` name an event; kind "head" is the head's own. `lacks`: how many are missing."""

    kind: str
    at: int
    version: int
    detail: str
    lacks: int = 1


class Verdict:
    """`named`: which version stood at a position that is known to be gone. `vacated`: positions that
    are empty because their event stands elsewhere."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.named: dict[float, int] = {}
        self.vacated: set[int] = set()


class _Span:
    """Between two events that follow each other: how many versions lack."""

    def __init__(self, before: Place, after: Place) -> None:
        self.before = before
        self.after = after
        self.lacks = after.version - before.version - 1


def judge(
    places: Sequence[Place],
    head: Head | None,
    gone: Sequence[float],
    *,
    whole: bool = True,
    end: int = END,
    holes: frozenset[int] = frozenset(),
    slack: int = 0,
    drift: int = 0,
) -> Verdict:
    """What is wrong in a stream.

    `places`: its sound events. `gone`, ascending: positions whose event is lost, or altered so that it
    may have belonged here; `holes`: those with no event at all. `whole`: the stream was read from its
    beginning; `end`: the position where the log ends. `slack`, `drift`: by how much positions, and this
    stream's versions, may have moved because events were taken out or put in.
    """
    verdict = Verdict()
    astray = {p for p in places if p.version < 1 or (holes and not 1 <= p.at <= end)}
    ordered = sorted(set(places) - astray)
    if not astray and (head is None or all(place.version <= head.version for place in ordered)):
        ordered = _swapped_back(ordered, verdict)
    kept, stray = _increasing(ordered)
    first = Place(0, 0, 0)
    if not whole and kept:
        first = Place(kept[0].position - 1, kept[0].version - 1, 0)
    if head is not None and kept:
        kept[-1] = _last(kept[-1], kept[-2] if len(kept) > 1 else first, head, verdict)
        if abs(head.version - kept[-1].version) <= drift:
            head = head._replace(version=kept[-1].version)
    spans = [_Span(a, b) for a, b in pairwise([first, *kept])]
    last = kept[-1] if kept else first
    if head is not None and head.version > last.version:
        spans.append(_Span(last, Place(END, head.version + 1, END)))
    for place in [*sorted(astray), *stray]:
        _stray(place, spans, head, holes, verdict)
    for span in spans:
        if span.lacks > 0:
            _lacking(span, head, gone, verdict)
    if head is None:
        if kept:
            verdict.faults.append(Fault("head", last.at, last.version, "the stream has no head"))
    elif kept:
        _head(kept, head, whole, slack, verdict)
    return verdict


def _swapped_back(ordered: list[Place], verdict: Verdict) -> list[Place]:
    """Where pairs of events have changed places and nothing else is out of order: blame them, and put
    each back in the other's place."""
    ranks = {version: rank for rank, version in enumerate(sorted(place.version for place in ordered))}
    where = [ranks[place.version] for place in ordered]
    if any(where[rank] != i for i, rank in enumerate(where)):
        return ordered
    back = []
    for place, rank in zip(ordered, where, strict=True):
        other = ordered[rank]
        if other is not place:
            detail = f"version {place.version} stands where version {other.version} belongs"
            verdict.faults.append(Fault("order", place.at, place.version, detail))
        back.append(Place(place.position, other.version, place.at))
    return back


def _last(last: Place, before: Place, head: Head, verdict: Verdict) -> Place:
    """The last event, under the version that the head and the event before it agree on."""
    if head.last != last.position or not head.version == before.version + 1 < last.version:
        return last
    verdict.faults.append(
        Fault("column", last.at, last.version, f"version is {last.version}, where {head.version} belongs")
    )
    return last._replace(version=head.version)


def _increasing(places: Sequence[Place]) -> tuple[list[Place], list[Place]]:
    """The longest run of ascending versions, and what stands out of it."""
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for i, place in enumerate(places):
        at = bisect_left(tails, place.version)
        tails[at : at + 1] = [place.version]
        ends[at : at + 1] = [i]
        back.append(ends[at - 1] if at else -1)
    kept: list[int] = []
    i = ends[-1] if ends else -1
    while i >= 0:
        kept.append(i)
        i = back[i]
    inside = set(kept)
    return [places[i] for i in reversed(kept)], [place for i, place in enumerate(places) if i not in inside]


def _stray(place: Place, spans: list[_Span], head: Head | None, holes: frozenset[int], verdict: Verdict) -> None:
    """An event whose version does not fit where it stands."""
    home = next((s for s in spans if s.lacks > 0 and s.before.version < place.version < s.after.version), None)
    here = next((s for s in spans if s.lacks > 0 and s.before.position < place.position < s.after.position), None)
    if here is not None and here.after.position == END and not (head is not None and head.last == place.position):
        here = None
    if home is not None:
        home.lacks -= 1
        vacated = [hole for hole in holes if home.before.position < hole < home.after.position]
        if head is not None and home.after.position == END and head.last in vacated:
            vacated = [head.last]
        if len(vacated) == 1:
            verdict.vacated.update(vacated)
        kind, detail = "order", f"version {place.version} belongs after position {home.before.at}"
    elif here is not None:
        here.lacks -= 1
        kind, detail = "column", f"version is {place.version}, where {here.before.version + 1} belongs"
    elif head is not None and place.version > head.version:
        kind, detail = "inserted", f"the stream ends at version {head.version}"
    else:
        kind, detail = "order", f"version {place.version} is out of order"
    verdict.faults.append(Fault(kind, place.at, place.version, detail))


def _lacking(span: _Span, head: Head | None, gone: Sequence[float], verdict: Verdict) -> None:
    """Versions that no event has: explained by what is gone between the neighbours, or missing."""
    between = gone[bisect_right(gone, span.before.position) : bisect_left(gone, span.after.position)]
    tail = span.after.position == END
    if tail and head is not None:
        if head.last == span.before.position:
            return  # nothing stood after it: the head's version is wrong
        if head.last not in between:
            between = []
    if len(between) >= span.lacks:
        if span.lacks == len(between) == 1:
            verdict.named[between[0]] = span.before.version + 1
        return
    low, high = span.before.version + 1, span.after.version - 1
    what = f"version {low} is" if low == high else f"{span.lacks} of versions {low} to {high} are"
    at = head.last if tail and head is not None else span.after.at
    verdict.faults.append(Fault("missing", at, low, f"{what} gone", span.lacks))


def _head(kept: Sequence[Place], head: Head, whole: bool, slack: int, verdict: Verdict) -> None:
    """Compare the head with the first and last of the events."""
    first, last = kept[0], kept[-1]
    moved = abs(head.last - last.position) > slack
    wrong = False
    if slack and not moved and 0 < last.version - head.version <= slack:
        detail = f"the stream has {last.version - head.version} more than its head says: this, or one before it"
        verdict.faults.append(Fault("inserted", last.at, last.version, detail))
    elif last.version > head.version:
        inside = [place for place in kept if place.version <= head.version]
        wrong = head.last == last.position or bool(inside and abs(inside[-1].position - head.last) > slack)
        if not wrong:
            for place in kept[len(inside) :]:
                detail = f"the stream ends at version {head.version}"
                verdict.faults.append(Fault("inserted", place.at, place.version, detail))
    elif last.version < head.version:
        wrong = head.last == last.position
    else:
        wrong = moved
    if whole:
        began = head.first < first.position if first.version > 1 else abs(head.first - first.position) <= slack
        wrong = wrong or not began
    if wrong:
        detail = (
            f"the stream's head says version {head.version}, positions {head.first} to {head.last}; "
            f"its events say version {last.version}, positions {first.position} to {last.position}"
        )
        verdict.faults.append(Fault("head", last.at, last.version, detail))
