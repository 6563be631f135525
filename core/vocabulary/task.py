"""Tasks; the stream is `task/<id>`. A specification says what must be achieved, never one way to do it.

Ways to do it are for the admission gate alone: they lie in `hidden/task/<id>`, which no planner reads.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Raw

from core.vocabulary.base import UNSET, MaybeRaw, Open, Part, Payload, Private, Provisional, Split
from core.vocabulary.contract import Budget, CheckPolicy
from core.vocabulary.episode import ToolSpec

Capability = Literal[
    "information_acquisition",
    "tool_routing",
    "parameter_filling",
    "multi_step_dependency",
    "state_tracking",
    "recovery",
    "verified_completion",
]

Axis = Literal["tool_use", "memory", "skills", "sub_agents"]


TASK = "task/message-ann"


class InitialConditions(Part, frozen=True):
    """The world before the first step."""

    state: Annotated[MaybeRaw, Private("of the apps")] = UNSET
    clock: Annotated[str | None, Open("the environment's time, RFC 3339")] = None
    faults: Annotated[MaybeRaw, Open("the fault plan")] = UNSET
    perturbations: Annotated[MaybeRaw, Open("renamed tools, revoked permissions, late messages and the like")] = UNSET


class Scenario(Part, frozen=True):
    """What kind of situation it is."""

    domain: Annotated[str, Open("of the app", "communication")]
    intent: Annotated[str, Open("what the user is after", "send a message")]
    interaction: Annotated[str, Open("how the user takes part", "single turn")]


class Criterion(Part, frozen=True):
    """One thing that must hold for the task to be done."""

    id: Annotated[str, Open("its name within the task", "message_sent")]
    policy: Annotated[CheckPolicy, Open("what is looked at")]
    gates: Annotated[bool, Open("whether the task fails without it")] = True
    milestone: Annotated[bool, Open("whether it counts as progress")] = False
    rule: Annotated[MaybeRaw, Private("how it is decided")] = UNSET


class TaskSpec(Part, frozen=True):
    """What must be achieved, from which state, with what. Immutable: its digest names it."""

    goal: Annotated[str, Private("as the user puts it", "Tell Ann that I am on my way")]
    capability: Annotated[Capability, Open("the capability it is for")]
    scenario: Annotated[Scenario, Open("what kind of situation")]
    axis: Annotated[Axis, Open("what it exercises")]
    split: Annotated[Split, Open("what it may be used for; inherited by derived tasks")]
    criteria: Annotated[list[Criterion], Open("when it is done")]
    tools: Annotated[list[ToolSpec], Open("exposed tools")] = []
    skills: Annotated[dict[str, str], Open("available skills and their versions")] = {}
    memory: Annotated[list[str], Open("available memories, stream@version")] = []
    initial: Annotated[InitialConditions, Open("the world before the first step")] = InitialConditions()
    budget: Annotated[dict[Budget, float], Open("steps, tokens, wall, money, device_s")] = {}
    backends: Annotated[list[str], Open("where it may run; empty = anywhere")] = []
    expects_no_change: Annotated[bool, Open("doing nothing is right")] = False
    provenance: Annotated[str | None, Open("where it comes from")] = None
    licence: Annotated[str | None, Open("SPDX")] = None
    parent: Annotated[str | None, Open("the task it was derived from")] = None
    follow_ups: Annotated[list[str], Private("what the user says next, each after the agent's answer")] = []


class TaskDefined(Payload, frozen=True):
    """A task exists; it may be used once it is admitted."""

    home: ClassVar[str] = TASK

    digest: Annotated[str, Open("of the specification")]
    spec: Annotated[TaskSpec, Open("the specification")]


class PlanRecorded(Payload, frozen=True):
    """A way through a task that the gate tries: one that must pass, or one that must not."""

    home: ClassVar[str] = "hidden/task/message-ann"

    digest: Annotated[str, Open("of the specification it is for")]
    name: Annotated[Literal["gold", "other_plan", "collateral_write"], Open("what it is to show", "gold")]
    steps: Annotated[Raw, Private("what is done, step by step", [{"tool": "send_message", "args": {"to": "Ann"}}])]


class Probe(Part, frozen=True):
    """One run of the admission gate."""

    name: Annotated[str, Open("gold, other_plan, nothing, dropped_write, collateral_write, repeat", "gold")]
    expected: Annotated[Literal["pass", "fail"], Open("the verdict it must get")]
    verdict: Annotated[str, Open("the verdict it got", "pass")]
    episode: Annotated[str | None, Open("the run")] = None


class AdmissionDecided(Payload, frozen=True):
    """The gate let the task in, or not."""

    home: ClassVar[str] = TASK

    digest: Annotated[str, Open("of the specification")]
    admitted: Annotated[bool, Open("whether it may be used", True)]
    probes: Annotated[list[Probe], Open("what it rests on")]
    environment: Annotated[str | None, Open("where the gate ran it", "phone@3f2a90c1d5e7")] = None
    why: Annotated[str | None, Open("why it was not let in")] = None


class TaskRetired(Provisional, frozen=True):
    """The task is not used any more."""

    home: ClassVar[str] = TASK

    why: Annotated[str, Open("the reason", "its app is gone")]
