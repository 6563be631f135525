"""What an episode is to be, what it may take, and how it came out."""

import msgspec

from backends.contract import ResetSpec
from backends.faults import Fault
from core.errors import BadRecord
from core.vocabulary.episode import ToolSpec
from core.vocabulary.task import TaskSpec


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Which task, as which rollout, under which faults. `versions`: of whatever else it depends on."""

    task: str
    spec: TaskSpec
    digest: str
    group: str | None = None
    rollout: int | None = None
    attempt: int = 1
    seeds: dict[str, int] = {}
    plan: list[Fault] = []
    versions: dict[str, str] = {}

    @property
    def reset(self) -> ResetSpec:
        return ResetSpec.of(self.task, self.spec, self.seeds)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that one action and one turn of the planner may take."""

    action_s: float = 30.0
    turn_s: float = 120.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How an episode came out. `failed`: the gating checks that did not pass; `message`: what went wrong
    if it did not end by itself; `infrastructure`: environment or model server failed, so that it says
    nothing about the agent. `episode` is None where it could not even begin."""

    episode: str | None
    task: str
    rollout: int | None
    end: str
    verdict: str
    steps: int = 0
    tokens: int | None = None
    wall_s: float = 0.0
    progress: float | None = None
    failed: list[str] = []
    message: str | None = None
    infrastructure: bool = False


def exposed(spec: TaskSpec, tools: list[ToolSpec]) -> list[ToolSpec]:
    """The tools that the task lets the planner see: those it names, else all. `BadRecord` if one is not
    there, or has another schema."""
    there = {tool.name: tool for tool in tools}
    for wanted in spec.tools:
        if wanted.name not in there:
            raise BadRecord(f"the task needs the tool {wanted.name}, which the environment has not")
        if wanted.schema_digest not in (None, there[wanted.name].schema_digest):
            raise BadRecord(f"the tool {wanted.name} has another schema than the task's")
    return [there[wanted.name] for wanted in spec.tools] or tools
