"""Runs an episode: a planner decides, an environment carries out, and all of it is recorded as it happens.

An action is durable before it is dispatched. However an episode ends, its record is whole: it says how
it ended and what the verifier found; what that rests on lies in `hidden/episode/<id>`.
"""

import threading
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from backends import faults
from backends.budget import Budget
from backends.contract import Backend, EnvironmentLost
from backends.jobs import Job, Limits, Outcome, exposed
from backends.planners import Planner, PlannerFailed, PlannerLate, PlannerUnavailable, Stopped, Turn
from backends.stage import NO_EVIDENCE, Stage
from backends.track import Track, raw
from backends.verifier import Run, verify
from core.identity import uuid7
from core.vocabulary.contract import (
    Action,
    AgentError,
    BudgetExhausted,
    Cancelled,
    Clarification,
    Clarify,
    End,
    EnvFailure,
    Finish,
    Finished,
    LeaseLost,
    Refuse,
    Refused,
    ToolCall,
    UserReply,
    Verification,
)
from core.vocabulary.episode import (
    ActionSubmitted,
    ContextRef,
    EpisodeStarted,
    EvidenceRecorded,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    VerificationRecorded,
)
from eventlog.log import Log


class Episode:
    """One episode under way, in one thread; `stop`, once set, ends it as cancelled."""

    def __init__(
        self,
        log: Log,
        backend: Backend,
        planner: Planner,
        job: Job,
        *,
        id: str | None = None,
        limits: Limits | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        self.job = job
        self.planner = planner
        self.limits = limits or Limits()
        self.budget = Budget(dict(job.spec.budget))
        self.track = Track(log, id or uuid7().hex())
        self.stage = Stage(backend, job, self.track, self.budget, self.limits)
        self.tokens: int | None = None
        self._stop = stop or threading.Event()
        self._since = time.monotonic()

    def run(self) -> Outcome:
        """From beginning to end. Raises only where there is no episode to speak of: the environment could
        not be reset, the log cannot be reached, somebody interrupted (its end is then recorded)."""
        job, manifest = self.job, self.stage.manifest
        observed = self.stage.reset()
        self.track.begin(
            EpisodeStarted(
                task=job.task,
                goal=job.spec.goal,
                group=job.group,
                rollout=job.rollout,
                attempt=job.attempt,
                policy=self.planner.policy,
                backend=manifest.backend,
                environment=manifest.name,
                split=job.spec.split,
                task_digest=job.digest,
                manifest=Raw(msgspec.json.encode(replace(manifest, tools=[]))),
                seeds=job.seeds,
                clock=observed.clock,
                fault_plan=faults.encode(job.plan),
                versions=job.versions,
                tools=exposed(job.spec, observed.tools or manifest.tools),
                state=self.stage.begun,
            )
        )
        return self.to_its_end(self.greet)

    def to_its_end(self, first: Callable[[], End | None]) -> Outcome:
        """Do `first`, go on until the episode ends, and record that."""
        infrastructure = False
        end: End
        try:
            end = first() or self._loop()
        except Stopped:
            end = Cancelled("stopped")
        except PlannerUnavailable as error:
            end, infrastructure = AgentError(str(error)), True
        except PlannerLate as error:
            end = BudgetExhausted("wall") if self.budget.left("wall") == 0 else AgentError(str(error))
        except PlannerFailed as error:
            end = AgentError(str(error))
        except EnvironmentLost as error:
            end = EnvFailure(str(error))
        except BaseException as error:
            self.track.recorder.__exit__(type(error), error, error.__traceback__)
            raise
        return self.finish(end, infrastructure)

    def greet(self) -> None:
        """What the planner is told first, and what the user wants."""
        if self.planner.instructions is not None:
            self.track.record(MessageRecorded("system", raw(self.planner.instructions)))
        self.track.record(MessageRecorded("user", raw(self.job.spec.goal)), "user")

    def carry_out(self, step: int, submitted: Sequence[tuple[int, Action]]) -> End | None:
        """Carry out the actions of a step, in order; the end, if one of them is that."""
        for version, action in submitted:
            self._check()
            if isinstance(action, Finish):
                return Finished()
            if isinstance(action, Refuse):
                return Refused(action.reason_code)
            if isinstance(action, Clarify):
                follow_up = self._follow_up()
                if follow_up is None:
                    return Clarification()
                self.track.record(FeedbackRecorded(step, UserReply(follow_up), action=version), "user")
                continue
            end = self.stage.act(step, version, action)
            if end is not None:
                return end
        return None

    def spend_tokens(self, count: int) -> None:
        """So many tokens were used."""
        self.tokens = (self.tokens or 0) + count
        self.budget.spend("tokens", count)

    def finish(self, end: End, infrastructure: bool = False) -> Outcome:
        """Judge what was done, and record evidence, end and verdict."""
        stage, track = self.stage, self.track
        after = NO_EVIDENCE if stage.before is NO_EVIDENCE else stage.evidence()
        told = [said.text for said in track.conversation.said if said.role == "assistant" and said.text]
        run = Run(
            before=stage.before,
            after=after,
            actions=[track.answered[version] for version in sorted(track.answered)],
            answer=told[-1] if told else None,
            end=end,
        )
        found = verify(self.job.spec, run)
        if infrastructure:
            found = Verification("error", verifier_digest=found.verifier_digest)
        evidence = EvidenceRecorded(run.before.state, after.state, run.before.digest, after.digest)
        found = replace(found, hidden_evidence=track.hide(evidence))
        track.recorder.end(end)
        track.record(VerificationRecorded(found, "machine"), "verifier")
        return self._outcome(end, found, infrastructure or isinstance(end, EnvFailure | LeaseLost))

    def _loop(self) -> End:
        while True:
            self._check()
            spent = self.budget.exhausted(self.track.conversation.step)
            if spent is not None:
                return BudgetExhausted(spent)
            end = self._turn()
            for charged in self.budget.charge(self.track.conversation.step):
                self.track.record(charged, "executor")
            if end is not None:
                return end

    def _turn(self) -> End | None:
        """One step: a turn of the planner, and what comes of it."""
        situation = self.track.conversation.situation()
        turn = self.planner.plan(situation, self.budget.within(self.limits.turn_s))
        self._responded(turn, situation.step)
        if turn.failure is not None or not turn.actions:
            return AgentError(turn.failure or "it decided nothing")
        follow_up = self._follow_up()
        if follow_up is not None and all(isinstance(action, Finish) for action in turn.actions):
            self.track.record(MessageRecorded("user", raw(follow_up), step=situation.step), "user")
            return None
        known = {tool.name: tool.schema_digest for tool in situation.tools}
        submitted = []
        for action in turn.actions:
            if isinstance(action, ToolCall) and known.get(action.tool):
                action = replace(action, schema_digest=known[action.tool])
            submitted.append((self.track.record(ActionSubmitted(situation.step, action), "planner"), action))
        return self.carry_out(situation.step, submitted)

    def _responded(self, turn: Turn, step: int) -> None:
        prompt = turn.prompt_digest
        said = ModelResponded(
            step,
            content=turn.content,
            thought=turn.thought,
            model=turn.model,
            usage=turn.usage,
            finish_reason=turn.finish_reason,
            latency_ms=None if turn.latency_ms is None else round(turn.latency_ms, 3),
            sampling=turn.sampling,
            context=None if prompt is None else ContextRef(prompt, [(1, self.track.version)]),
            extra=raw({"actions": len(turn.actions)}) if len(turn.actions) > 1 else UNSET,
        )
        self.track.record(said, "planner")
        if turn.usage is not None:
            self.spend_tokens((turn.usage.prompt_tokens or 0) + (turn.usage.completion_tokens or 0))

    def _follow_up(self) -> str | None:
        """What the user says next; None if nothing."""
        told = self.track.conversation.told - 1
        follow_ups = self.job.spec.follow_ups
        return follow_ups[told] if told < len(follow_ups) else None

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _outcome(self, end: End, found: Verification, infrastructure: bool) -> Outcome:
        dimension = getattr(end, "dimension", None)
        return Outcome(
            episode=self.track.id,
            task=self.job.task,
            rollout=self.job.rollout,
            end=f"{end.kind}({dimension})" if dimension else end.kind,
            verdict=found.verdict,
            steps=self.track.conversation.step,
            tokens=self.tokens,
            wall_s=round(time.monotonic() - self._since, 3),
            progress=found.progress,
            failed=[check.id for check in found.checks if check.gates and check.verdict != "pass"],
            message=getattr(end, "message", None),
            infrastructure=infrastructure,
        )
