"""Scripts: what a planner does, written down step by step. Plans for the admission gate are scripts too.

A script is a JSON array (or JSON lines) of steps, one model turn each:

    {"tool": "set_alarm", "args": {"time": "05:45"}}
    {"say": "Both at once.", "calls": [{"tool": "get_time"}, {"tool": "list_alarms"}]}
    {"ui": {"op": "tap", "target": {"kind": "element", "ref": "e12"}}}
    {"answer": "It rings at 05:45."}      or {"clarify": "Which alarm?"} or {"refuse": "unsafe"}
"""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from core.errors import UsageError
from core.vocabulary.contract import Action, Clarify, Finish, Refuse, ToolCall, Ui


class Call(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One call of a tool; its arguments go out exactly as they are written, `{}` if there are none."""

    tool: str
    args: Raw | UnsetType = UNSET

    def action(self, call_id: str) -> ToolCall:
        return ToolCall(self.tool, Raw(b"{}") if self.args is UNSET else Raw(self.args), call_id)


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One model turn: what it says and thinks, and what it does: calls, or one of the rest."""

    say: str | None = None
    think: str | None = None
    tool: str | None = None
    args: Raw | UnsetType = UNSET
    calls: list[Call] = []
    ui: Ui | None = None
    answer: str | None = None
    clarify: str | None = None
    refuse: str | None = None

    def __post_init__(self) -> None:
        ways = (self.tool, self.calls or None, self.ui, self.answer, self.clarify, self.refuse)
        if sum(way is not None for way in ways) != 1:
            raise ValueError("a step is one of tool, calls, ui, answer, clarify, refuse")

    @property
    def content(self) -> str | None:
        """What the turn says: an answer is said, not only claimed."""
        return self.answer if self.answer is not None else self.say

    def actions(self, number: int) -> list[Action]:
        """What the step does, as the step of that number."""
        if self.answer is not None:
            return [Finish("done")]
        if self.clarify is not None:
            return [Clarify(self.clarify)]
        if self.refuse is not None:
            return [Refuse(self.refuse)]
        if self.ui is not None:
            return [self.ui]
        calls = self.calls or [Call(self.tool or "", self.args)]
        return [call.action(f"call_{number}_{i}") for i, call in enumerate(calls, 1)]


Script = list[Step]


def read(path: Path) -> Script:
    """The script in a file. `UsageError` if it cannot be read, is none or has no step."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=str(path)) from error
    found = parse(data, where=str(path))
    if not found:
        raise UsageError("there is no step in it", where=str(path), mend="see docs/environments.md")
    return found


def parse(data: bytes | Raw, *, where: str = "script") -> Script:
    """The script that these bytes are."""
    try:
        text = bytes(data).strip()
        if text.startswith(b"["):
            return msgspec.json.decode(text, type=Script)
        return [msgspec.json.decode(line, type=Step) for line in text.splitlines() if line.strip()]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"no script: {error}", where=where, mend="see docs/environments.md") from error


def encode(script: Script) -> Raw:
    """The script as JSON."""
    return Raw(msgspec.json.encode(script))


def without(script: Script, place: int, call: int) -> Script:
    """The script without one of its calls; the rest as it is."""
    step = script[place]
    if len(step.calls) > 1:
        kept = [one for i, one in enumerate(step.calls) if i != call]
        return [*script[:place], msgspec.structs.replace(step, calls=kept), *script[place + 1 :]]
    return [*script[:place], *script[place + 1 :]]


def tool_calls(script: Script) -> list[tuple[int, int, Call]]:
    """Every call with its place: (index of the step, index in the step, call)."""
    found: list[tuple[int, int, Call]] = []
    for place, step in enumerate(script):
        calls: Any = step.calls or ([Call(step.tool, step.args)] if step.tool is not None else [])
        found += [(place, i, call) for i, call in enumerate(calls)]
    return found
