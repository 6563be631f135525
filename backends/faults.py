"""Faults put between planner and environment on purpose, as data: the same plan, the same faults.

A plan is a list of faults. Each names the calls it hits, and what comes back instead of the answer:
an error, or a value that is not true. Every fault that takes effect is recorded as `FaultInjected`.
"""

from collections import Counter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from backends.contract import Backend
from core.errors import UsageError
from core.vocabulary.contract import Action, Effect, ErrorClass, ExecError, Feedback, ToolCall, ToolResult


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`tool`: whose calls (None: all); `calls`: which of them, from 1 (empty: every one).

    With `effect` none the call never reaches the environment; otherwise it is carried out and its
    answer replaced: by `value` as the result, else by an error of `class`.
    """

    fault: str
    tool: str | None = None
    calls: list[Annotated[int, Meta(ge=1)]] = []
    class_: ErrorClass = msgspec.field(name="class", default="injected")
    effect: Effect = "none"
    retryable: bool = True
    message: str | None = None
    value: Raw | UnsetType = UNSET

    def answer(self) -> Feedback:
        """What the planner is told."""
        if self.value is not UNSET:
            return ToolResult(Raw(bytes(self.value)))
        return ExecError(self.class_, self.retryable, self.effect, message=self.message)


class Faults:
    """A plan under way in one episode: it counts the calls."""

    def __init__(self, plan: list[Fault] | None = None) -> None:
        self.plan = plan or []
        self._calls: Counter[str] = Counter()

    @classmethod
    def of(cls, plan: Raw | bytes | UnsetType | None, *, where: str = "fault plan") -> "Faults":
        """The plan that this JSON is. `UsageError` if it is none."""
        return cls(parse(plan, where=where))

    def execute(
        self, backend: Backend, action: Action, deadline: float, idempotency_key: str
    ) -> tuple[Feedback, Fault | None]:
        """Carry the action out, or let a fault of the plan have its way with it."""
        fault = self._due(action) if self.plan else None
        if fault is None:
            return backend.execute(action, deadline, idempotency_key), None
        if fault.effect != "none":
            backend.execute(action, deadline, idempotency_key)
        return fault.answer(), fault

    def _due(self, action: Action) -> Fault | None:
        """The first fault that hits this call; counts it."""
        if not isinstance(action, ToolCall):
            return None
        self._calls[action.tool] += 1
        self._calls[""] += 1
        for fault in self.plan:
            if fault.tool in (None, action.tool):
                number = self._calls[fault.tool or ""]
                if not fault.calls or number in fault.calls:
                    return fault
        return None


def parse(plan: Raw | bytes | UnsetType | None, *, where: str = "fault plan") -> list[Fault]:
    """The faults of a plan; none given, none planned."""
    if plan is None or plan is UNSET:
        return []
    try:
        return msgspec.json.decode(plan, type=list[Fault])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(str(error), where=where, mend="see docs/environments.md") from error


def encode(plan: list[Fault]) -> Raw | UnsetType:
    """The plan as events hold it."""
    return Raw(msgspec.json.encode(plan)) if plan else UNSET


def parameters(fault: Fault) -> Raw:
    """What `FaultInjected` says it did."""
    said: dict[str, Any] = msgspec.to_builtins({"class": fault.class_, "effect": fault.effect})
    if fault.value is not UNSET:
        said = {"effect": fault.effect, "value": Raw(bytes(fault.value))}
    return Raw(msgspec.json.encode(said))
