"""What changed between two releases, row by row, and why: each change has one cause.

Causes: `new events` of the row (or of others, where a choice among rows came out otherwise), `superseded
verdict`, `reviewer` (a person judged or marked), `retraction`, `erasure` (of what the row's text rests on),
`fold version`, `recipe`, `split` (the row is held out, or too near what is).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from core.identity import uuid_bytes
from eventlog.log import Log, reader_of
from learners import recipe
from learners.choice import KEPT
from learners.releases import chat, code, rebuild, register
from learners.releases.index import Entry
from learners.releases.sources import opened
from learners.releases.states import Release
from learners.rows import Facts, Key
from learners.selection import select

if TYPE_CHECKING:
    from learners.releases.writing import Progress

Kind = Literal["added", "removed", "changed"]

HELD_OUT: Final = ("held out", "near-duplicate", "split ")
"""Begin the reasons that `learners.heldout` gives, and those of rows of another split."""

_ABSENT: Final = "not in the view"
_SINCE = """
SELECT stream, version, type, body FROM trajlog.event
WHERE stream = ANY(%s) AND position > %s AND position <= %s ORDER BY stream, version
"""
_JUDGED = """
SELECT DISTINCT stream FROM trajlog.event
WHERE stream = ANY(%s) AND position <= %s AND type = 'VerificationRecorded'
"""
_CHUNK = 2_000


class Change(NamedTuple):
    """A row that is not in both releases alike."""

    key: Key
    kind: Kind
    streams: tuple[str, ...]
    cause: str | None = None
    detail: str | None = None


class Difference(NamedTuple):
    """All changes in canonical order; `same` counts the rows that are alike."""

    changes: list[Change]
    same: int

    @property
    def kinds(self) -> dict[str, int]:
        counts = Counter(change.kind for change in self.changes)
        return {kind: counts[kind] for kind in ("added", "removed", "changed")}

    @property
    def causes(self) -> dict[str, int]:
        return dict(Counter(change.cause for change in self.changes if change.cause).most_common())


class _Event(NamedTuple):
    stream: str
    version: int
    type: str
    by_human: bool

    def __str__(self) -> str:
        return f"{self.type} {self.stream}@{self.version}"


def compare(log: Log, old: Release, new: Release) -> Difference:
    """What changed, as the log lists the rows of both."""
    olds, news = (register.members(log, one.name, one.version) for one in (old, new))
    changes: list[Change] = []
    same = 0
    for key, a, b in _pairs(olds, news):
        if a is not None and b is not None and a.digest == b.digest:
            same += 1
            continue
        kind: Kind = "added" if a is None else "removed" if b is None else "changed"
        streams = (b or a or Entry(key, b"")).sources or (key.stream,)
        changes.append(Change(key, kind, streams))
    return Difference(changes, same)


def explain(
    found: Difference, old: Release, new: Release, logs: Sequence[Log], progress: "Progress | None" = None
) -> Difference:
    """The same with causes: both choices are made again, for the rows in question."""
    why_old = _reasons(old, logs, {change.key for change in found.changes if change.kind == "added"}, progress)
    why_new = _reasons(new, logs, {change.key for change in found.changes if change.kind == "removed"}, progress)
    events = _Between(found.changes, old, new, logs)
    folds = _Folds.between(old, new)
    other_recipe = bytes(old.built.recipe) != bytes(new.built.recipe)
    explained = []
    for change in found.changes:
        without, reasons = (old, why_old) if change.kind == "added" else (new, why_new)
        reason = None if change.kind == "changed" else reasons.get(change.key)
        cause, detail = (
            _untold(change.kind, without)
            if reason == KEPT
            else _cause(reason, events.of(change), events.judged_before(change), folds, other_recipe)
        )
        explained.append(change._replace(cause=cause, detail=detail))
    return found._replace(changes=explained)


class _Folds(NamedTuple):
    """From which `version` of the fold or of the text to which, if it is another; `source`: whether the same
    version had another source."""

    version: str | None
    source: bool

    @classmethod
    def between(cls, old: Release, new: Release) -> "_Folds":
        versions = [(one.built.view, one.built.code.text) for one in (old, new)]
        other = [f"{a} → {b}" for a, b in zip(*versions, strict=True) if a != b]
        return cls(", ".join(other) or None, old.built.code.fold != new.built.code.fold)


def _untold(kind: Kind, without: Release) -> tuple[str, str | None]:
    """The cause where a row was chosen, but could not be told in the release that is `without` it."""
    if chat.MISSING in without.built.exclusions:
        return "erasure", f"what it rests on {'is there again' if kind == 'added' else 'is gone'}"
    return "fold version", f"the trajlog {without.built.code.trajlog} cannot read an event of it"


def _cause(
    reason: str | None, own: "list[_Event]", judged: bool, folds: _Folds, other_recipe: bool
) -> tuple[str, str | None]:
    """The cause of a change: `reason` is why the row is not on one side, `own` its events in between."""
    said = ", ".join(str(event) for event in own[:5]) + (f" and {len(own) - 5:,} more" if len(own) > 5 else "")
    if reason is not None and reason.startswith(HELD_OUT):
        return "split", reason
    if reason not in (None, _ABSENT) and other_recipe:
        return "recipe", reason
    if own:
        types = {event.type for event in own}
        if types & {"ErasureRequested", "ErasureExecuted"}:
            return "erasure", said
        if "EpisodeRetracted" in types:
            return "retraction", said
        if any(event.by_human for event in own):
            return "reviewer", said
        if "VerificationRecorded" in types and judged:
            return "superseded verdict", said
        return "new events", said
    if folds.version or (folds.source and reason in (None, _ABSENT)):
        return "fold version", folds.version or "the same version from another source"
    if other_recipe:
        return "recipe", reason
    return "new events", reason if reason != _ABSENT else None


def _pairs(olds: Iterator[Entry], news: Iterator[Entry]) -> Iterator[tuple[Key, Entry | None, Entry | None]]:
    a, b = next(olds, None), next(news, None)
    while a is not None or b is not None:
        if b is None or (a is not None and a.key < b.key):
            assert a is not None
            yield a.key, a, None
            a = next(olds, None)
        elif a is None or b.key < a.key:
            yield b.key, None, b
            b = next(news, None)
        else:
            yield a.key, a, b
            a, b = next(olds, None), next(news, None)


def _reasons(release: Release, logs: Sequence[Log], keys: set[Key], progress: "Progress | None") -> dict[Key, str]:
    """Why rows are not in a release: by its recipe, or since the view had none."""
    view = rebuild.view_of(release)
    if not keys or isinstance(view, str):
        return {}
    found = dict.fromkeys(keys, _ABSENT)
    places: dict[int, Key] = {}

    def noted(facts: Iterator[Facts]) -> Iterator[Facts]:
        for i, one in enumerate(facts):
            if one.key in keys:
                places[i] = one.key
            yield one

    with opened(rebuild.sources(release, logs), view, progress=progress) as sources:
        facts = (one for source in sources for one in view.facts(source.connection, source.log_id))
        chosen = recipe.load(bytes(release.built.recipe))
        selection = select(noted(facts), chosen, code.guard(sources).refuse)
    return found | {key: selection.reasons[selection.codes[i]] for i, key in places.items()}


class _Between:
    """The events between two releases' cuts, of the streams that changes are about."""

    def __init__(self, changes: Sequence[Change], old: Release, new: Release, logs: Sequence[Log]) -> None:
        self._events: dict[tuple[bytes, str], list[_Event]] = {}
        self._judged: set[tuple[bytes, str]] = set()
        cuts = [{uuid_bytes(cut.log_id): cut.position for cut in one.built.cuts} for one in (old, new)]
        for log in logs:
            low, high = sorted(positions.get(log.log_id, 0) for positions in cuts)
            streams = sorted({s for change in changes if change.key.log_id == log.log_id for s in change.streams})
            for first in range(0, len(streams), _CHUNK):
                self._read(log, streams[first : first + _CHUNK], low, high)

    def of(self, change: Change) -> list[_Event]:
        return [event for stream in change.streams for event in self._events.get((change.key.log_id, stream), ())]

    def judged_before(self, change: Change) -> bool:
        return any((change.key.log_id, stream) in self._judged for stream in change.streams)

    def _read(self, log: Log, streams: list[str], low: int, high: int) -> None:
        with reader_of(log).borrow() as connection:
            for stream, version, type_, body in connection.execute(_SINCE, (streams, low, high), binary=True):
                event = _Event(stream, version, type_, _by_human(type_, body))
                self._events.setdefault((log.log_id, stream), []).append(event)
            self._judged |= {(log.log_id, stream) for (stream,) in connection.execute(_JUDGED, (streams, low))}


def _by_human(type_: str, body: bytes) -> bool:
    if type_ == "ReviewDecided":
        return True
    if type_ not in ("VerificationRecorded", "TurnMarked"):
        return False
    said: Any = msgspec.json.decode(body)
    return bool(said.get("source") == "human")
