"""Recorded actions run again in an environment, one episode after the other.

A backend that can take many actions at once offers `replay`; any other is asked action by action.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from backends.contract import Backend, ResetSpec
from core.vocabulary.contract import Action, Feedback


class Plan(NamedTuple):
    """One episode's actions, from its initial conditions on. `states`: the digests of the state are
    wanted too. `verbatim`: arguments go to the tools as they were recorded, whether they fit or not."""

    spec: ResetSpec
    actions: Sequence[Action]
    states: bool = False
    verbatim: bool = False


class Replayed(NamedTuple):
    """What came back, an item per action; `states` are the digests before the first action and after
    each, empty if they were not wanted or cannot be read. `refused`: why it did not begin."""

    feedback: list[Feedback]
    states: list[str]
    refused: str | None = None


@runtime_checkable
class Replayer(Protocol):
    """A backend that takes a whole plan, and the next ones while it answers."""

    def replay(self, plans: Iterable[Plan], deadline: float) -> Iterator[Replayed]:
        """The plans' results in order; `deadline`: seconds for each action. `EnvironmentLost`."""
        ...


def one_by_one(backend: Backend, plan: Plan, deadline: float) -> Replayed:
    """The same through the contract alone. `EnvironmentLost`, `ResetRefused`."""
    return go_on(backend, backend.reset(plan.spec), plan, deadline)


def go_on(backend: Backend, begun: str | None, plan: Plan, deadline: float) -> Replayed:
    """The plan in an environment that was reset for it; `begun`: the digest of its state."""
    states = [begun] if plan.states and begun is not None else []
    found = []
    for number, action in enumerate(plan.actions):
        found.append(backend.execute(action, deadline, f"{number}"))
        now = backend.observe().state if states else None
        states = [*states, now] if now is not None else []
    return Replayed(found, states)
