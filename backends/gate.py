"""The admission gate: whether a task's criteria can be trusted, before anybody is judged by them.

The gold plan passes, and so does every other plan that is given; the gold plan again does exactly the
same; doing nothing fails (unless the task says `expects_no_change`); the gold plan without one of its
writes fails, for each of them; so does any change besides: the plan given for it, and, where the state
can be read, the gold run with any part of the state changed that it left alone.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from backends import paths, script
from backends.contract import Backend, Evidence, Make, Manifest, ResetRefused, ResetSpec
from backends.faults import Faults
from backends.schemas import canonical, digest
from backends.script import Script
from backends.tasks import Task, refusal
from backends.verifier import Answered, Run, verify
from core.vocabulary.contract import Clarify, ExecError, Finish, Refuse, ToolCall, Verification
from core.vocabulary.task import AdmissionDecided, Probe

DEADLINE_S: Final = 30.0
DISTURBED: Final = 256
"""Parts of the state that are changed besides, at most."""

Place = tuple[paths.Step, ...]


class Trial(msgspec.Struct, frozen=True):
    """A plan carried out: what a verification rests on, and every state on the way."""

    run: Run
    states: list[str | None]
    verification: Verification

    @property
    def verdict(self) -> str:
        return self.verification.verdict


class _Refused(Exception):
    """The gate has decided against the task: why, and by which probe."""

    def __init__(self, why: str, probe: Probe | None = None) -> None:
        super().__init__(why, probe)
        self.why = why
        self.probe = probe


def admit(task: Task, make: Make, *, progress: Callable[[int], object] = lambda done: None) -> AdmissionDecided:
    """Put a task through the gate in that environment. Whatever the plans do, it decides; raises only
    where the environment itself cannot be used."""
    backend = make()
    try:
        manifest = backend.describe()
        probes: list[Probe] = []
        why = None
        try:
            for probe in _probes(task, backend, manifest):
                probes.append(probe)
                progress(len(probes))
        except _Refused as refused:
            why = refused.why
            probes += [refused.probe] if refused.probe else []
        return AdmissionDecided(task.digest, why is None, probes, environment=manifest.name, why=why)
    finally:
        backend.close()


def carry_out(task: Task, backend: Backend, plan: Script, deadline: float = DEADLINE_S) -> Trial:
    """Carry a plan out from the task's initial conditions, its faults included, and judge what it came
    to. The environment's own errors go up."""
    spec = task.spec
    faults = Faults.of(spec.initial.faults)
    states = [backend.reset(ResetSpec.of(task.id, spec))]
    before = backend.evidence()
    actions: list[Answered] = []
    answer = None
    for number, step in enumerate(plan, 1):
        for place, action in enumerate(step.actions(number)):
            if isinstance(action, Finish | Clarify | Refuse):
                answer = step.content
                continue
            feedback, _ = faults.execute(backend, action, deadline, f"gate:{number}:{place}")
            actions.append(Answered(action, feedback))
            states.append(backend.observe().state)
    run = Run(before=before, after=backend.evidence(), actions=actions, answer=answer)
    return Trial(run, states, verify(spec, run))


def _probes(task: Task, backend: Backend, manifest: Manifest) -> Iterator[Probe]:
    why = refusal(task) or _missing(task, manifest)
    if why is not None:
        raise _Refused(why)
    try:
        gold = carry_out(task, backend, task.plans.gold)
    except ResetRefused as error:
        raise _Refused(f"its initial conditions cannot be had: {error}") from error
    yield _expect("gold", "pass", gold, f"the gold plan fails: {_reason(gold)}")
    again = carry_out(task, backend, task.plans.gold)
    yield _expect("repeat", "pass", again, f"the gold plan passed once and then failed: {_reason(again)}")
    if manifest.determinism == "D0" and (difference := _difference(gold, again)):
        raise _Refused(f"two runs of the gold plan differ: {difference}")
    for place, plan in enumerate(task.plans.others, 1):
        other = carry_out(task, backend, plan)
        yield _expect("other_plan", "pass", other, f"plan {place} of the others fails: {_reason(other)}")
    nothing = carry_out(task, backend, [])
    if task.spec.expects_no_change:
        yield _expect("nothing", "pass", nothing, f"doing nothing fails, but no change is expected: {_reason(nothing)}")
    else:
        yield _expect("nothing", "fail", nothing, "doing nothing passes")
    for place, call, written in script.tool_calls(task.plans.gold):
        if written.tool not in manifest.reads:
            dropped = carry_out(task, backend, script.without(task.plans.gold, place, call))
            yield _expect(
                "dropped_write",
                "fail",
                dropped,
                f"it passes without {written.tool} of step {place + 1} of the gold plan",
            )
    yield from _collateral(task, backend, gold)


def _collateral(task: Task, backend: Backend, gold: Trial) -> Iterator[Probe]:
    if task.plans.collateral:
        given = carry_out(task, backend, task.plans.collateral)
        yield _expect("collateral_write", "fail", given, "the plan that changes something besides passes")
    elif gold.run.after.digest is None:
        raise _Refused("its state cannot be read: give a plan under collateral that changes something besides")
    for place, run in _disturbed(gold.run):
        found = verify(task.spec, run)
        if found.verdict == "pass":
            probe = Probe("collateral_write", "fail", found.verdict)
            raise _Refused(f"it passes although {paths.text(place)} was changed besides", probe)
        yield Probe("collateral_write", "fail", found.verdict)


def _disturbed(run: Run) -> Iterator[tuple[Place, Run]]:
    """The run as if one part of the state that it left alone had changed: each such part in turn."""
    if run.after.digest is None:
        return
    before, after = (msgspec.json.decode(one.state) for one in (run.before, run.after))
    for place in islice(paths.unchanged(before, after), DISTURBED):
        other = paths.altered(after, place)
        yield place, replace(run, after=Evidence(state=Raw(canonical(other)), digest=digest(other)))


def _expect(name: str, expected: Literal["pass", "fail"], trial: Trial, otherwise: str) -> Probe:
    """The probe, if it came out as it must. Anything but a pass is a failure to pass; only a real verdict
    is one to fail."""
    verdict = trial.verdict
    probe = Probe(name, expected, verdict)
    if (verdict == "pass") != (expected == "pass"):
        raise _Refused(otherwise, probe)
    return probe


def _missing(task: Task, manifest: Manifest) -> str | None:
    """A tool that the task or its gold plan needs and the environment lacks, or has with another schema."""
    if task.spec.backends and manifest.environment not in task.spec.backends:
        return f"it may run in {', '.join(task.spec.backends)} only"
    return lacking(task, manifest)


def lacking(task: Task, manifest: Manifest) -> str | None:
    """What of the task's tools the environment does not have; None if it has all."""
    there = {tool.name: tool.schema_digest for tool in manifest.tools}
    for tool in task.spec.tools:
        if tool.name not in there:
            return f"it needs the tool {tool.name}, which {manifest.name} has not"
        if tool.schema_digest not in (None, there[tool.name]):
            return f"the tool {tool.name} of {manifest.name} has another schema than the task's"
    return None


def _difference(a: Trial, b: Trial) -> str | None:
    """Where two runs of one plan first differ, naming the tool."""
    for place, (one, other) in enumerate(zip(a.run.actions, b.run.actions, strict=True)):
        tool = one.action.tool if isinstance(one.action, ToolCall) else one.action.kind
        if msgspec.json.encode(one.feedback) != msgspec.json.encode(other.feedback):
            return f"call {place + 1}, {tool}, answers differently"
        if a.states[place + 1] != b.states[place + 1]:
            return f"call {place + 1}, {tool}, leads to another state"
    return "the initial state" if a.states[0] != b.states[0] else None


def _reason(trial: Trial) -> str:
    """Why a run does not pass, in one line: the first check that says so, or the first error."""
    wrong = next((one for one in trial.verification.checks if one.gates and one.verdict != "pass"), None)
    errors: Sequence[Any] = [
        f"{one.action.tool if isinstance(one.action, ToolCall) else one.action.kind}: {one.feedback.message}"
        for one in trial.run.actions
        if isinstance(one.feedback, ExecError)
    ]
    told = f" ({errors[0]})" if errors else ""
    if wrong is None:
        return f"verdict {trial.verdict}{told}"
    detail = "" if wrong.detail is msgspec.UNSET else f" {bytes(wrong.detail).decode()[:200]}"
    return f"check {wrong.id} is {wrong.verdict}{detail}{told}"
