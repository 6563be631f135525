"""Where a task runs, simulation first; each decision with its reasons, never a silent downgrade."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from core.vocabulary.base import Open, Part, Provisional


class Agreement(Part, frozen=True):
    """Measured agreement of a backend with the real device, for tool × capability × version."""

    tool: Annotated[str, Open("the tool", "send_message")]
    capability: Annotated[str, Open("the capability", "tool_routing")]
    backend_version: Annotated[str, Open("the backend", "sandbox@3")]
    samples: Annotated[int, Open("how many comparisons", 40)]
    lower_bound: Annotated[float, Open("of Wilson's interval", 0.91)]


class AllocationDecided(Provisional, frozen=True):
    """A task was given a backend, a place in the queue, or neither."""

    home: ClassVar[str] = "task/message-ann"

    outcome: Annotated[Literal["allocated", "queued", "unallocatable"], Open("what was decided")]
    reasons: Annotated[list[str], Open("why, in order", ["sandbox has every tool and criterion"])]
    backend: Annotated[str | None, Open("where it runs")] = None
    episode: Annotated[str | None, Open("for which episode")] = None
    agreement: Annotated[list[Agreement], Open("what it rests on")] = []
    calibration: Annotated[bool, Open("taken from the quota for unknown cells")] = False
