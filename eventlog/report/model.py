"""What a report says of an episode, as data: facts, checks, verdicts and a timeline.

Texts in it still hold what was recorded; the page escapes them and writes control characters out. Of
the blobs only the first bytes are read here.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from core.times import to_text
from eventlog import remarks
from eventlog.remarks import Judged
from eventlog.report.rows import Step, steps
from eventlog.report.shots import Shots
from eventlog.timeline import payload_of
from eventlog.wording import unfolded

FIELDS: Final = (
    "task",
    "goal",
    "policy",
    "environment",
    "source",
    "split",
    "started_at",
    "ended_at",
    "end",
    "verdict",
    "reward",
    "steps",
    "events",
    "tokens",
    "failing_tool",
    "retracted",
)
"""The fields of an episode's row that a report reads."""

_NOT_FACTS: Final = frozenset({"goal", "verdict", "retracted"})


class Recorded(msgspec.Struct, frozen=True):
    """An episode to report on: its id, its row (`FIELDS`) and all its events."""

    episode: str
    row: dict[str, Any]
    events: Sequence[StoredEvent]


class Check(msgspec.Struct, frozen=True):
    """One question of the verdict that rules, and its answer."""

    id: str
    policy: str
    verdict: str
    gates: bool
    detail: str | None
    evidence: list[str]


class Verdict(msgspec.Struct, frozen=True):
    """A verdict as it was recorded, and when, in words."""

    judged: Judged
    when: str


class Episode(msgspec.Struct, frozen=True):
    """One episode of a report. `key` tells the ids of its rows from those of another's."""

    key: str
    episode: str
    title: str
    verdict: str
    goal: str | None
    facts: list[tuple[str, str]]
    checks: list[Check]
    verdicts: list[Verdict]
    steps: list[Step]
    retracted: bool

    @property
    def failing(self) -> list[Check]:
        return [check for check in self.checks if check.verdict != "pass"]


def episode(recorded: Recorded, key: str, shots: Shots, parted: int | None = None) -> Episode:
    """The episode as its report shows it; `parted` is the version of the action where it left the other."""
    row = recorded.row
    history = remarks.history(recorded.events)
    return Episode(
        key=key,
        episode=recorded.episode,
        title=str(row.get("task") or recorded.episode),
        verdict=str(row.get("verdict") or "unverified"),
        goal=row.get("goal"),
        facts=list(_facts(recorded)),
        checks=list(_checks(recorded.events, history)),
        verdicts=[_verdict(judged) for judged in history],
        steps=steps(recorded.events, shots, parted),
        retracted=bool(row.get("retracted")),
    )


def _facts(recorded: Recorded) -> Iterator[tuple[str, str]]:
    yield "episode", recorded.episode
    for name in FIELDS:
        value = recorded.row.get(name)
        if value is not None and name not in _NOT_FACTS:
            yield name.removesuffix("_at").replace("_", " "), _fact(name, value)


def _fact(name: str, value: Any) -> str:
    if name.endswith("_at"):
        return _time(str(value))
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _time(text: str) -> str:
    """An RFC 3339 time in UTC, to the second, for people."""
    return f"{text[:19].replace('T', ' ')} UTC"


def _verdict(judged: Judged) -> Verdict:
    at = judged.committed_at if judged.occurred_at is None else judged.occurred_at
    return Verdict(judged, _time(to_text(at)))


def _checks(events: Sequence[StoredEvent], history: list[Judged]) -> Iterator[Check]:
    """The checks of the verdict that rules; where it has none, those of the latest that has some."""
    payloads = {event.version: payload_of(event) for event in events if event.type == "VerificationRecorded"}
    order = sorted(history, key=lambda judged: (judged.rules, judged.version), reverse=True)
    for judged in order:
        found = payloads[judged.version]["verification"].get("checks")
        if found:
            yield from (_check(check) for check in found)
            return


def _check(check: dict[str, Any]) -> Check:
    return Check(
        str(check["id"]),
        str(check["policy"]),
        str(check["verdict"]),
        bool(check.get("gates", True)),
        "\n".join(unfolded(check["detail"])) if "detail" in check else None,
        [str(ref) for ref in check.get("evidence_refs", [])],
    )
