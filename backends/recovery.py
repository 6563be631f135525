"""Bringing an environment back to where an episode was: its reset, and its actions again.

Only where the environment is byte-reproducible (D0), and only if every state on the way is the recorded
one: else it is said that it did not come back.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from backends.contract import Backend, EnvironmentLost, ResetSpec
from backends.faults import Fault, Faults
from core.vocabulary.contract import Action

REPRODUCIBLE: Final = "D0"


class Past(msgspec.Struct, frozen=True):
    """An action that took effect, or may have: under which key, and the state it led to, if known."""

    action: Action
    key: str
    state: str | None


def bring_back(
    backend: Backend,
    spec: ResetSpec,
    plan: list[Fault],
    past: Sequence[Past],
    *,
    begun: str | None,
    deadline: float,
    first: Callable[[], object] = lambda: None,
) -> Faults:
    """Reset and carry out `past` again; returns the fault plan, having counted those calls. `begun`: the
    recorded digest of the first state, in which `first` is called. `EnvironmentLost` if a state differs
    from the recorded one."""
    where = backend.describe().name
    faults = Faults(plan)
    try:
        found = backend.reset(spec)
        if begun is not None and found != begun:
            raise EnvironmentLost("the reset leads to another state than it did", where=where)
        first()
        for place, one in enumerate(past, 1):
            faults.execute(backend, one.action, deadline, one.key)
            state = backend.observe().state
            if one.state is not None and state != one.state:
                raise EnvironmentLost(
                    f"action {place} of {len(past)}, carried out again, leads to another state than it did", where=where
                )
    except EnvironmentLost:
        raise
    except Exception as error:
        raise EnvironmentLost(f"it cannot be brought back: {type(error).__name__}: {error}", where=where) from error
    return faults
