"""Planners: what decides. Given a situation, a planner returns one model turn.

`script:FILE` does what is written down; `openai:URL#MODEL` asks any OpenAI-compatible server. Planners
keep no memory of their own: all they need is in the situation, so that an episode can be gone on with.
"""

from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw

from backends.conversation import Situation
from backends.schemas import digest, plain
from backends.script import Script, read
from core.errors import TrajlogError, Unavailable, UsageError
from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import Action, Finish, ToolCall
from core.vocabulary.episode import Usage


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One model turn. `failure`: why it cannot be used; then there are no actions. `prompt_digest`: of the
    request, sampling parameters included."""

    actions: list[Action] = []
    content: str | None = None
    thought: str | None = None
    model: str | None = None
    usage: Usage | None = None
    finish_reason: str | None = None
    latency_ms: float | None = None
    sampling: MaybeRaw = UNSET
    failure: str | None = None
    prompt_digest: str | None = None


class PlannerFailed(TrajlogError):
    """The planner gave no answer that can be used."""


class PlannerUnavailable(Unavailable):
    """The planner cannot be reached: nothing is said about how well it plans."""


class PlannerLate(PlannerFailed):
    """No answer within the deadline."""


class Stopped(Exception):
    """Somebody cancelled what was under way."""


class Planner(Protocol):
    """Used by one episode, from one thread; `cancel` may come from any other."""

    @property
    def policy(self) -> str:
        """The name that episodes record: a model or a script. Never an address or a key."""
        ...

    @property
    def instructions(self) -> str | None:
        """What it is told before the user's goal; recorded as a message."""
        ...

    def plan(self, situation: Situation, deadline: float) -> Turn:
        """The next turn, within `deadline` seconds. `PlannerFailed`, `PlannerUnavailable`; `Stopped` once
        `cancel` was called."""
        ...

    def cancel(self) -> None:
        """Break off what is under way."""
        ...

    def close(self) -> None: ...


class ScriptPlanner:
    """Does what a script says, one step a turn; where it ends, the planner is done."""

    instructions = None

    def __init__(self, script: Script, policy: str) -> None:
        self.policy = policy
        self._script = script

    def plan(self, situation: Situation, deadline: float) -> Turn:
        if situation.step > len(self._script):
            return Turn(actions=[Finish("the script ends here")])
        step = self._script[situation.step - 1]
        return Turn(actions=step.actions(situation.step), content=step.content, thought=step.think)

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass


class PlannerSpec(msgspec.Struct, frozen=True):
    """A planner as people write it: `script:FILE` or `openai:URL#MODEL`, and how a model samples."""

    text: str
    sampling: MaybeRaw = UNSET

    def make(self) -> Planner:
        """A new planner. `UsageError` for what is none."""
        kind, _, rest = self.text.partition(":")
        sampling_of(self.sampling)
        if kind == "script" and rest:
            return ScriptPlanner(read(Path(rest)), f"script:{Path(rest).name}")
        if kind == "openai" and rest:
            from backends.model import ModelPlanner

            return ModelPlanner.of(rest, self.sampling)
        raise UsageError(
            f"{self.text[:80]!r} is no planner", where="--planner", mend="write script:FILE or openai:URL#MODEL"
        )

    def script_digest(self) -> str | None:
        """Of what the script does; None for a model."""
        kind, _, rest = self.text.partition(":")
        return digest(plain(read(Path(rest)))) if kind == "script" else None

    @property
    def shown(self) -> str:
        """As episodes record it: without passwords and query."""
        kind, _, rest = self.text.partition(":")
        if kind != "openai":
            return self.text
        from backends.model import address

        url, model = address(rest)
        return f"openai:{url}#{model}"


def sampling_of(raw: MaybeRaw) -> dict[str, Any]:
    """The sampling parameters. `UsageError` if they are no JSON object."""
    try:
        return {} if raw is UNSET else msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        mend = "write it like '{\"temperature\": 0.7}'"
        raise UsageError(f"no JSON object: {error}", where="--sampling", mend=mend) from error


def tool_call(tool: str, text: str, call_id: str | None) -> ToolCall:
    """A call as a model wrote it: its argument text verbatim, apart if it is no JSON."""
    data = text.encode(errors="replace")
    try:
        msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return ToolCall(tool, Raw(b"null"), call_id, args_text=data.decode())
    return ToolCall(tool, Raw(data), call_id)
