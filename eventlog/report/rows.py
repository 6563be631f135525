"""The rows of a report's timeline: each line with its full payload, its screens, and notes about it."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from core.times import to_text
from eventlog.report.shots import Shot, Shots, Text
from eventlog.screens import Screen, blobs_in, screen_of
from eventlog.timeline import lines, payload_of, step_of
from eventlog.wording import Json, Line, is_blob, show, unfolded

SAID: Final = 600
"""Characters of what was said before it is folded."""

LINES: Final = 12
"""Lines of it."""

SUMMARY: Final = 120
"""Characters of a folded text that stand in its summary."""

_TEXTUAL = re.compile(r"text/.*|application/(?:json|xml|.*\+(?:json|xml))")

_KINDS: Final = {
    "ModelResponded": "turn",
    "MessageRecorded": "message",
    "ActionSubmitted": "action",
    "FeedbackRecorded": "feedback",
    "VerificationRecorded": "judgement",
    "NoteAdded": "note",
}


class Fold(msgspec.Struct, frozen=True):
    """A text; `summary` is None where it is short enough to be shown as it is."""

    text: str
    summary: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """What came back for an action."""

    version: int
    text: str
    full: str
    failed: bool


class Row(msgspec.Struct, frozen=True):
    """One line of the timeline. `text` is its line, `full` its whole payload, `said` and `thought` what
    a model or a speaker said. `before` and `after` are the screens around an action, `shots` those that
    stand alone, `shown_at` the version of the action that already shows this one's. `parted`: here the
    episode left the one it is compared with."""

    version: int
    step: int | None
    kind: str
    text: str
    full: str
    at: str | None
    after_ms: float | None
    line: Line
    role: str | None = None
    thought: Fold | None = None
    said: Fold | None = None
    answer: Answer | None = None
    before: Shot | None = None
    after: Shot | None = None
    shots: list[Shot] = []
    shown_at: int | None = None
    texts: list[Text] = []
    notes: list[tuple[int, str]] = []
    parted: bool = False


class Step(msgspec.Struct, frozen=True):
    """Rows that belong together: those of one step, or those between steps (`number` None)."""

    number: int | None
    rows: list[Row]

    @property
    def failed(self) -> bool:
        return any(row.line.failed for row in self.rows)


def steps(events: Sequence[StoredEvent], shots: Shots, parted: int | None = None) -> list[Step]:
    """An episode's timeline; `parted` is the version of the action where it left the other."""
    found: list[Step] = []
    for row in _Timeline(events, shots, parted).rows():
        if not found or found[-1].number != row.step:
            found.append(Step(row.step, []))
        found[-1].rows.append(row)
    return found


class _Timeline:
    def __init__(self, events: Sequence[StoredEvent], shots: Shots, parted: int | None) -> None:
        self._events = {event.version: event for event in events}
        self._payloads = {event.version: payload_of(event) for event in events}
        self._lines = list(lines(events))
        self._shots = shots
        self._parted = parted
        self._start = next((event.occurred_at for event in events if event.occurred_at is not None), None)
        self._screens = [found for event in events if (found := screen_of(event, self._payloads[event.version]))]
        self._at = [screen.version for screen in self._screens]
        self._actions = [event.version for event in events if event.type == "ActionSubmitted"]
        self._notes = self._find_notes()
        self._pairs = {line.version: pair for line in self._lines if (pair := self._pair(line))}
        self._shown_at = {screen.version: version for version, pair in self._pairs.items() for screen in pair if screen}

    def rows(self) -> Iterator[Row]:
        for line in self._lines:
            yield self._row(line)

    def _find_notes(self) -> dict[int, list[tuple[int, str]]]:
        found: dict[int, list[tuple[int, str]]] = {}
        for version, payload in self._payloads.items():
            if self._events[version].type == "NoteAdded" and isinstance(payload.get("target"), int):
                found.setdefault(payload["target"], []).append((version, str(payload.get("text"))))
        return found

    def _pair(self, line: Line) -> tuple[Screen | None, Screen | None] | None:
        """The screens before and after a touch, or a call that brought one."""
        if self._events[line.version].type != "ActionSubmitted":
            return None
        action = self._payloads[line.version].get("action")
        touches = isinstance(action, dict) and action.get("kind") == "Ui"
        after = None if line.answer is None else self._screen(bisect_left(self._at, line.answer), line.answer)
        if not touches and after is None:
            return None
        index = bisect_left(self._at, line.version)
        if after is None:
            following = bisect_left(self._actions, line.version + 1)
            until = self._actions[following] if following < len(self._actions) else None
            after = self._screen(index, None, until)
        before = self._screen(index - 1, None)
        return (before, after) if before or after else None

    def _screen(self, index: int, version: int | None, until: int | None = None) -> Screen | None:
        """The screen of that index, if it is the one wanted."""
        if not 0 <= index < len(self._screens):
            return None
        found = self._screens[index]
        if version is not None and found.version != version:
            return None
        return None if until is not None and found.version > until else found

    def _row(self, line: Line) -> Row:
        event, payload = self._events[line.version], self._payloads[line.version]
        kind = _KINDS.get(event.type, "other")
        earlier, later = self._pair_shots(line, payload)
        said, thought = _said(kind, payload)
        screen = self._screen(bisect_left(self._at, line.version), line.version)
        shown_at = self._shown_at.get(line.version)
        answer = None if line.answer is None else self._answer(line)
        answered = [] if line.answer is None else [self._payloads[line.answer]]
        return Row(
            version=line.version,
            step=step_of(payload),
            kind=kind,
            text=line.action,
            full=_full(payload),
            at=None if event.occurred_at is None else to_text(event.occurred_at),
            after_ms=_since(self._start, event.occurred_at),
            line=line,
            role=_role(kind, payload),
            thought=thought,
            said=said,
            answer=answer,
            before=earlier,
            after=later,
            shots=[] if screen is None or shown_at is not None else self._shots.all(screen, "screen"),
            shown_at=shown_at,
            texts=[text for value in (payload, *answered) for text in _texts(value)],
            notes=self._notes.get(line.version, []) + (self._notes.get(line.answer, []) if line.answer else []),
            parted=line.version == self._parted,
        )

    def _pair_shots(self, line: Line, payload: Json) -> tuple[Shot | None, Shot | None]:
        before, after = self._pairs.get(line.version, (None, None))
        action = payload.get("action")
        return (
            None if before is None else self._shots.shot(before, "before", action),
            None if after is None else self._shots.shot(after, "after"),
        )

    def _answer(self, line: Line) -> Answer:
        assert line.answer is not None
        return Answer(line.answer, line.outcome or "", _full(self._payloads[line.answer]), line.failed)


def _full(payload: Json) -> str:
    return "\n".join(unfolded(payload))


def _since(start: int | None, at: int | None) -> float | None:
    return None if start is None or at is None else (at - start) / 1000


def _role(kind: str, payload: Json) -> str | None:
    if kind == "turn":
        return "model, copied" if payload.get("copied") else "model"
    return str(payload.get("role")) if kind == "message" else None


def _said(kind: str, payload: Json) -> tuple[Fold | None, Fold | None]:
    """What was said, and what was thought."""
    if kind not in ("turn", "message"):
        return None, None
    content = payload.get("content")
    thought = payload.get("thought")
    return (
        None if content is None else _folded(_text(content), SAID),
        None if thought is None else _folded(_text(thought), 0),
    )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(
            str(part["text"]) if isinstance(part, dict) and isinstance(part.get("text"), str) else show(part, SUMMARY)
            for part in content
        )
    return show(content, SUMMARY) if is_blob(content) else "\n".join(unfolded(content))


def _folded(text: str, limit: int) -> Fold:
    """The text, and a summary if it has more characters than `limit`, or many lines."""
    if len(text) <= limit and text.count("\n") < LINES:
        return Fold(text)
    start = " ".join(text[: SUMMARY * 4].split())[:SUMMARY]
    return Fold(text, text if len(text) <= SUMMARY else f"{start}… (+{len(text) - len(start):,})")


def _texts(payload: Any) -> Iterator[Text]:
    """The texts of a payload that lie in the blob store."""
    for blob in blobs_in(payload):
        kind = str(blob["media_type"]).partition(";")[0].lower()
        if _TEXTUAL.fullmatch(kind):
            yield Text(str(blob["address"]), kind, blob["size"] if isinstance(blob.get("size"), int) else 0)
