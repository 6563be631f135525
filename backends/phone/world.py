"""The phone's world: what it holds, what changes it, nothing of the machine it runs on.

The state is plain JSON. Ids come from a seeded sequence per table, the time from a clock that only
`wait` moves; what is due by then happens in order: alarms ring, messages arrive.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw

from backends.contract import ResetRefused, ResetSpec

START = "2026-03-02T14:00:00Z"
State = dict[str, Any]


class Arrival(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message that arrives at that time, RFC 3339."""

    at: datetime
    source: str
    text: str


class Perturbations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is different about the phone: tools under other names, apps whose permission is revoked,
    lists in the reverse order, messages that arrive mid-task."""

    renamed: dict[str, str] = {}
    revoked: list[str] = []
    reordered: bool = False
    arrivals: list[Arrival] = []


class _Note(msgspec.Struct, forbid_unknown_fields=True):
    title: Annotated[str, Meta(min_length=1)]
    text: str = ""


class _Alarm(msgspec.Struct, forbid_unknown_fields=True):
    time: Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    label: str = ""
    on: bool = True


class _Notification(msgspec.Struct, forbid_unknown_fields=True):
    at: str
    source: str
    text: str
    silenced: bool = False


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """The state that a task may ask for; ids are given by the phone, in the order listed."""

    notes: list[_Note] = []
    alarms: list[_Alarm] = []
    notifications: list[_Notification] = []
    do_not_disturb: bool = False
    note_limit: Annotated[int, Meta(ge=0)] = 50


def begin(spec: ResetSpec) -> tuple[State, Perturbations]:
    """The state and perturbations of these initial conditions. `ResetRefused` if they are none."""
    initial = spec.initial
    given = _read(initial.state, _Given(), "initial.state")
    perturbations = _read(initial.perturbations, Perturbations(), "initial.perturbations")
    seed = spec.seeds.get("environment", 0)
    state: State = {
        "clock": _text(_clock(initial.clock or START)),
        "do_not_disturb": given.do_not_disturb,
        "note_limit": given.note_limit,
        "notes": {},
        "alarms": {},
        "notifications": [msgspec.to_builtins(one) for one in given.notifications],
        "ids": {"notes": 100 * seed, "alarms": 100 * seed},
    }
    for table, rows in (("notes", given.notes), ("alarms", given.alarms)):
        for row in rows:
            add(state, table, msgspec.to_builtins(row))
    return state, perturbations


def add(state: State, table: str, row: dict[str, Any]) -> str:
    """A new row under the next id of its table."""
    state["ids"][table] += 1
    id = f"{table[0]}{state['ids'][table]}"
    state[table][id] = row
    return id


def wait(state: State, minutes: int, arrivals: list[Arrival]) -> list[dict[str, Any]]:
    """Move the clock; returns what happened meanwhile, which stands among the notifications too."""
    begun = _clock(state["clock"])
    until = begun + timedelta(minutes=minutes)
    due = [(one.at.astimezone(UTC), one.source, one.text) for one in arrivals if begun < one.at <= until]
    for alarm in state["alarms"].values():
        if alarm["on"]:
            hour, minute = map(int, alarm["time"].split(":"))
            rings = begun.replace(hour=hour, minute=minute, second=0)
            rings += timedelta(days=rings <= begun)
            if rings <= until:
                due.append((rings, "alarms", alarm["label"]))
                alarm["on"] = False
    rung = [
        {"at": _text(at), "source": source, "text": text, "silenced": state["do_not_disturb"]}
        for at, source, text in sorted(due)
    ]
    state["notifications"] += rung
    state["clock"] = _text(until)
    return rung


def _read(raw: Any, default: Any, where: str) -> Any:
    if raw is UNSET:
        return default
    try:
        return msgspec.json.decode(Raw(raw), type=type(default))
    except msgspec.MsgspecError as error:
        raise ResetRefused(str(error), where=where, mend="see docs/environments.md") from error


def _clock(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except ValueError as error:
        raise ResetRefused(f"{text[:80]!r} is no time", where="initial.clock", mend=f"write it like {START}") from error


def _text(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
