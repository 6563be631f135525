"""BFCL's tasks as tasks of trajlog: what the gold calls led to, said as criteria."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from backends import paths
from backends.contract import ResetSpec
from backends.mounts import bfcl
from backends.mounts.hosted import Hosted
from backends.mounts.mounted import Mounted
from backends.script import Call, Script, Step
from backends.tasks import Plans, Task
from core.vocabulary.contract import CheckPolicy, ToolResult
from core.vocabulary.task import Criterion, Scenario, TaskSpec

MORE_TOOLS: Final = "There are more tools to choose from now. What about that?"
"""What the user says in a turn that only brings the tools which were missing."""


def tasks(backend: Mounted) -> Iterator[Task]:
    """Every task, its gold calls carried out for what they lead to. `UsageError` for another mount."""
    engine = backend.engine
    assert isinstance(engine, Hosted)
    for task in bfcl.tasks(engine):
        yield _task(task, backend)


def _task(task: bfcl.Task, backend: Mounted) -> Task:
    backend.reset(ResetSpec(task=task.id, initial=task.initial))
    tools = backend.observe().tools
    before = msgspec.json.decode(backend.evidence().state)
    answers = [backend.execute(call, 60.0, f"{place}") for place, call in enumerate(task.calls)]
    after = msgspec.json.decode(backend.evidence().state)
    said = [turn or MORE_TOOLS for turn in task.turns]
    criteria = [_criterion(f"state-{name}", "state", {"path": f"$.{name}", "like": after[name]}) for name in after]
    changed = [paths.text(place) for place in paths.changes(before, after)]
    criteria.append(_criterion("nothing_else", "no_collateral", {"allow": changed}))
    responses = dict.fromkeys(
        (call.tool, bytes(answer.value))
        for call, answer in zip(task.calls, answers, strict=True)
        if isinstance(answer, ToolResult)
    )
    for number, (tool, value) in enumerate(responses, 1):
        criteria.append(_criterion(f"response-{number}", "call", {"tool": tool, "result": Raw(value)}))
    assert task.initial.state is not UNSET
    objects = msgspec.json.decode(task.initial.state)["objects"]
    spec = TaskSpec(
        goal=said[0],
        capability="multi_step_dependency",
        scenario=Scenario(domain=" and ".join(objects), intent="as the user says", interaction="multi turn"),
        axis="tool_use",
        split="dev",
        criteria=criteria,
        tools=tools or backend.describe().tools,
        initial=task.initial,
        backends=[backend.describe().environment],
        provenance=f"BFCL v4 multi-turn, {task.id}",
        licence="Apache-2.0",
        follow_ups=said[1:],
    )
    return Task(f"bfcl/{task.id}", spec, Plans(gold=_script(task)))


def _script(task: bfcl.Task) -> Script:
    steps: Script = []
    for turn in task.gold:
        steps += [Step(calls=[Call(call.tool, call.args)]) for call in turn]
        steps.append(Step(answer="Done." if turn else "I cannot do that with the tools I have."))
    return steps


def _criterion(id: str, policy: CheckPolicy, rule: dict[str, Any]) -> Criterion:
    return Criterion(id, policy, milestone=policy == "call", rule=Raw(msgspec.json.encode(rule)))
