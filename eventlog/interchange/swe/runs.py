"""What SWE-agent and mini-swe-agent have in common: shell commands, how a run ended, what it cost."""

from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from core.vocabulary.contract import (
    AgentError,
    Budget,
    BudgetExhausted,
    Cancelled,
    End,
    EnvFailure,
    Finish,
    Finished,
    Refused,
    ToolCall,
)
from core.vocabulary.episode import ActionSubmitted, BudgetCharged
from eventlog.interchange.draft import EpisodeDraft
from eventlog.interchange.mapping.extras import extended
from eventlog.interchange.mapping.images import Fault

MAX_GOAL = 65_536
"""Bytes of a first request that may stand in an event twice."""

_SUBMITTED = ("submitted", "Submitted")
_AFTER_FAULT = "submitted ("
_ENDS: dict[str, End] = {
    "exit_cost": BudgetExhausted("money"),
    "exit_total_cost": BudgetExhausted("money"),
    "exit_context": BudgetExhausted("tokens"),
    "ContextWindowExceededError": BudgetExhausted("tokens"),
    "exit_total_execution_time": BudgetExhausted("wall"),
    "TimeExceeded": BudgetExhausted("wall"),
    "exit_forfeit": Refused("exit_forfeit"),
    "exit_api": EnvFailure("exit_api"),
    "exit_environment_error": EnvFailure("exit_environment_error"),
    "KeyboardInterrupt": Cancelled("KeyboardInterrupt"),
    "UserInterruption": Cancelled("UserInterruption"),
}


def bash(command: str, call_id: str | None = None) -> ToolCall:
    """A command line as the call of the shell that it is."""
    return ToolCall("bash", Raw(msgspec.json.encode({"command": command})), call_id)


def end_of(status: str, submission: Any) -> End:
    """How a run ended. An agent that submits nothing has no usable output; what its harness submits
    for it after a fault (`submitted (exit_cost)`) leaves the fault the end."""
    if status in _SUBMITTED:
        empty = not submission or (isinstance(submission, str) and submission.isspace())
        return AgentError("submitted nothing") if empty else Finished()
    cause = status.removeprefix(_AFTER_FAULT).removesuffix(")") if status.startswith(_AFTER_FAULT) else status
    return _ENDS.get(cause) or AgentError(cause)


def submit(draft: EpisodeDraft, step: int, status: str | None, submission: Any) -> bool:
    """Add the claim to be done, with what was submitted, if the agent itself made it; whether it did."""
    claimed = step > 0 and status in _SUBMITTED and isinstance(submission, str)
    if claimed:
        draft.add(ActionSubmitted(step, Finish("submitted", answer=submission)), actor="planner")
    return claimed


def charge(draft: EpisodeDraft, dimension: Budget, amount: float) -> None:
    """What the whole run used up of a budget, if that was counted."""
    if amount and isfinite(amount):
        draft.add(BudgetCharged(dimension, amount))


def begin_with(draft: EpisodeDraft, **fields: Raw | None) -> None:
    """Put something into the `extra` of the episode's start."""
    draft.start(replace(draft.started, extra=extended(draft.started.extra, **fields)))


def at(value: Any, *path: str) -> Any:
    """What lies at a path of plain JSON, None if nothing does."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_at(value: Any, *path: str) -> str | None:
    """The text at a path of plain JSON, None if there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else None


def text_of(content: Any, fault: Fault) -> str | None:
    """A message's text; of a list of parts, that of its texts."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise fault("content: expected a text or a list of parts")
    texts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(texts) if texts else None


def goal_of(request: str | None) -> str | None:
    """The first request as a goal."""
    return request if request and len(request.encode()) <= MAX_GOAL else None
