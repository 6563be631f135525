"""The environment's side of an episode: actions go out, what comes back is recorded.

An answer that got lost leaves it open whether the action took effect. Where the environment is
reproducible (D0) that is settled: it is brought back to the state before, the action carried out again
and the second answer recorded too. If that gets lost as well, it is brought back once more and the
error stands, with no effect. Elsewhere `effect: unknown` stays, and the planner must read back.
"""

import time
from typing import Literal

from msgspec import UNSET, Raw
from msgspec.structs import replace

from backends import faults
from backends.budget import Budget
from backends.contract import Backend, EnvironmentLost, Evidence, Manifest, Observed
from backends.faults import Fault, Faults
from backends.jobs import Job, Limits
from backends.recovery import REPRODUCIBLE, Past, bring_back
from backends.schemas import refused
from backends.track import Track, raw
from core.vocabulary.contract import Action, End, ExecError, Feedback, LeaseLost, ToolCall
from core.vocabulary.episode import ActionDispatched, FaultInjected, FeedbackRecorded

NO_EVIDENCE = Evidence(state=Raw(b"null"), digest=None)

Settled = Literal["re-executed", "restored"]


class Stage:
    """`state`: the digest after the last action; `past`: the actions that made it; `begun` and `before`:
    digest and evidence after the reset."""

    def __init__(self, backend: Backend, job: Job, track: Track, budget: Budget, limits: Limits) -> None:
        self.backend = backend
        self.manifest: Manifest = backend.describe()
        self.state: str | None = None
        self.past: list[Past] = []
        self.begun: str | None = None
        self.before = NO_EVIDENCE
        self._job = job
        self._track = track
        self._budget = budget
        self._limits = limits
        self._faults = Faults(job.plan)

    def reset(self) -> Observed:
        """A fresh copy of the environment in the task's initial conditions."""
        self.begun = self.backend.reset(self._job.reset)
        self._read_first()
        observed = self.backend.observe()
        self.state = observed.state
        return observed

    def act(self, step: int, version: int, action: Action) -> End | None:
        """Carry out a submitted action; the end, if the environment was taken away."""
        feedback, fault = self._dispatch(step, version, action)
        if isinstance(feedback, ExecError):
            if feedback.class_ == "lease_lost":
                return LeaseLost()
            if feedback.effect == "unknown" and fault is None:
                self.settle(step, version, action)
                return None
        self._took_effect(version, action, self.state)
        return None

    def settle(self, step: int, version: int, action: Action) -> None:
        """Find out what came of an action whose answer got lost. `EnvironmentLost` if it is gone."""
        if self.manifest.determinism != REPRODUCIBLE:
            health = self.backend.health()
            if not health.ok:
                raise EnvironmentLost(health.why or "it does not answer", where=self.manifest.name)
            self._took_effect(version, action, None)
            return
        self.bring_back()
        feedback, fault = self._dispatch(step, version, action, again=True)
        if fault is not None or not (isinstance(feedback, ExecError) and feedback.effect == "unknown"):
            self._took_effect(version, action, self.state)

    def bring_back(self) -> None:
        """The environment as it was after the last action that is known to have taken effect."""
        self._faults = bring_back(
            self.backend,
            self._job.reset,
            self._job.plan,
            self.past,
            begun=self.begun,
            deadline=self._limits.action_s,
            first=self._read_first,
        )
        self.state = self._observed()

    def evidence(self) -> Evidence:
        """The state for the verifier; what cannot be read is judged as such."""
        try:
            return self.backend.evidence()
        except Exception:
            return NO_EVIDENCE

    def _read_first(self) -> None:
        if self.before is NO_EVIDENCE:
            self.before = self.evidence()

    def _dispatch(
        self, step: int, version: int, action: Action, *, again: bool = False
    ) -> tuple[Feedback, Fault | None]:
        """Send an action out and record what comes back; returns what came back, as it came."""
        call_id = getattr(action, "call_id", None)
        self._track.record(ActionDispatched(step, call_id), "executor")
        before = self.state
        begun = time.monotonic()
        feedback, fault = self._execute(action, self._key(version) + (":2" if again else ""))
        taken = time.monotonic() - begun
        self.state = self._observed()
        told, settled = feedback, "re-executed" if again else None
        if again and fault is None and isinstance(feedback, ExecError) and feedback.effect == "unknown":
            self.bring_back()
            told, settled = replace(feedback, effect="none"), "restored"
        if fault is not None:
            self._track.record(FaultInjected(fault.fault, step, call_id, faults.parameters(fault)), "executor")
        recorded = FeedbackRecorded(
            step,
            told,
            call_id=call_id,
            action=version,
            state_before=before,
            state_after=self.state,
            latency_ms=round(taken * 1000, 3),
            extra=raw({"settled": settled}) if settled else UNSET,
        )
        self._track.answer(recorded, action)
        self._budget.spend("money", feedback.cost)
        if self.manifest.backend == "device":
            self._budget.spend("device_s", taken)
        return feedback, fault

    def _execute(self, action: Action, key: str) -> tuple[Feedback, Fault | None]:
        tools = self._track.conversation.tools
        if isinstance(action, ToolCall) and all(tool.name != action.tool for tool in tools):
            return refused("unknown_tool", f"there is no tool {action.tool!r}"), None
        try:
            return self._faults.execute(self.backend, action, self._budget.within(self._limits.action_s), key)
        except EnvironmentLost:
            raise
        except Exception as error:  # a backend may not raise, but one day one will
            return ExecError("backend_bug", False, "unknown", message=f"{type(error).__name__}: {error}"), None

    def _took_effect(self, version: int, action: Action, state: str | None) -> None:
        self.past.append(Past(action, self._key(version), state))

    def _observed(self) -> str | None:
        """The digest now; what cannot be observed has none."""
        try:
            return self.backend.observe().state
        except Exception:
            return None

    def _key(self, version: int) -> str:
        return f"{self._track.id}:{version}"
