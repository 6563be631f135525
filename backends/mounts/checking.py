"""Tries an environment twice over, and says what does not hold."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from backends.contract import Backend, Make, ResetSpec
from backends.mounts import bfcl
from backends.mounts.hosted import Hosted
from backends.mounts.mount import Bfcl
from backends.mounts.mounted import Mounted
from backends.replaying import Plan, Replayed, one_by_one
from core.errors import TrajlogError
from core.vocabulary.contract import ExecError, Feedback, ToolCall, ToolResult


class Checked(msgspec.Struct, kw_only=True):
    """What was tried, and every problem in one line. `failing`: gold calls that are answered by an error,
    which is the benchmark's own fault."""

    env: str
    version: str
    determinism: str
    tools: int
    state: str | None = None
    examples: int = 0
    tasks: int = 0
    calls: int = 0
    failing: int = 0
    nondeterministic: list[str] = []
    problems: list[str] = []
    printed: str = ""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def check(make: Make, progress: Callable[[int, int], None] = lambda done, total: None) -> Checked:
    """Try one instance and a second one. `Unavailable` where it cannot be used at all."""
    backend = make()
    try:
        manifest = backend.describe()
        found = Checked(
            env=manifest.name,
            version=manifest.version,
            determinism=manifest.determinism,
            tools=len(manifest.tools),
        )
        found.state = backend.reset(ResetSpec())
        if manifest.state and manifest.determinism == "D0" and backend.reset(ResetSpec()) != found.state:
            found.problems.append("two resets lead to different states")
        if isinstance(backend, Mounted) and isinstance(backend.mount, Bfcl):
            _gold(found, backend, progress)
        elif isinstance(backend, Mounted):
            _examples(found, make, backend)
        if isinstance(backend, Mounted):
            found.printed = backend.printed()
    finally:
        backend.close()
    return found


def _examples(found: Checked, make: Make, backend: Mounted) -> None:
    """The mount's examples, in both instances: the same answers, the same states."""
    examples = backend.mount.examples
    calls = [ToolCall(one.tool, msgspec.Raw(msgspec.json.encode(one.args))) for one in examples]
    found.examples = len(calls)
    plan = Plan(ResetSpec(), calls, states=True)
    other = make()
    try:
        first, second = (_run(one, plan) for one in (backend, other))
    except TrajlogError as error:
        found.problems.append(str(error))
        return
    finally:
        other.close()
    for call, one in zip(calls, first.feedback, strict=True):
        if isinstance(one, ExecError) and one.class_ in ("unknown_tool", "schema", "timeout", "backend_bug"):
            found.problems.append(f"{call.tool}: {one.class_}: {one.message}")
    if found.determinism == "D0":
        _alike(found, calls, first, second)


def _gold(found: Checked, backend: Mounted, progress: Callable[[int, int], None]) -> None:
    """BFCL's gold calls, twice, judged by its own checks."""
    engine = backend.engine
    assert isinstance(engine, Hosted)
    tasks = list(bfcl.tasks(engine))
    plans = [
        Plan(ResetSpec(task=task.id, initial=task.initial), task.calls, states=True, verbatim=True) for task in tasks
    ]
    runs: list[list[Replayed]] = []
    for turn in range(2):
        runs.append([])
        for done, one in enumerate(backend.replay(iter(plans), 60.0)):
            runs[turn].append(one)
            progress(turn * len(tasks) + done + 1, 2 * len(tasks))
    found.tasks = len(tasks)
    found.calls = sum(len(task.calls) for task in tasks)
    found.failing = sum(isinstance(one, ExecError) for run in runs[0] for one in run.feedback)
    wrong = 0
    for task, first, second in zip(tasks, *runs, strict=True):
        _alike(found, task.calls, first, second)
        if first.refused or second.refused or not task.calls:
            wrong += 1
            continue
        gold, run = (bfcl.turns(task, [text(answer) for answer in one.feedback], one.states) for one in (first, second))
        checks = bfcl.judge(run, gold)
        wrong += not checks or any(made.verdict != "pass" for made in checks)
    if wrong:
        found.problems.append(f"the gold calls of {wrong:,} tasks fail the state or response checks")


def _alike(found: Checked, calls: Sequence[ToolCall], first: Replayed, second: Replayed) -> None:
    """Note the tools that answer otherwise in a second run."""
    if first.refused or second.refused:
        found.problems.append(first.refused or second.refused or "")
        return
    for place, (call, one, another) in enumerate(zip(calls, first.feedback, second.feedback, strict=True)):
        states = [run.states[place + 1] if place + 1 < len(run.states) else None for run in (first, second)]
        if one != another or states[0] != states[1]:
            if call.tool not in found.nondeterministic:
                found.nondeterministic.append(call.tool)
                what = "answers otherwise" if one != another else "leaves another state"
                found.problems.append(f"{call.tool} is not deterministic: run again it {what}")
            return


def text(feedback: Feedback) -> bytes:
    """What a model is shown of a feedback."""
    if isinstance(feedback, ToolResult):
        return bytes(feedback.value)
    return str(feedback.message if isinstance(feedback, ExecError) else feedback).encode()


def _run(backend: Backend, plan: Plan) -> Replayed:
    return one_by_one(backend, plan, 600.0)
