"""tau-bench results: `[{task_id, reward, info, traj, trial}, …]`, OpenAI messages in `traj`.

An assistant message is a step and its tool calls are that step's actions. A tool message answers the
nearest earlier call of its id that has no answer yet, since ids are reused inside an episode. The
reward decides, whether `info.reward_info` is there or not. The trials of a task are one group.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, ClassVar, get_args

import msgspec
from msgspec import Raw

from core.vocabulary.base import MaybeRaw, Verdict
from core.vocabulary.contract import (
    AgentError,
    BudgetExhausted,
    Check,
    ErrorClass,
    ExecError,
    Feedback,
    Finished,
    ToolCall,
    ToolResult,
    Verification,
)
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    Role,
    VerificationRecorded,
)
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Record
from eventlog.interchange.mapping.messages import Calls, Fields, joined, tool_call, tool_value

_STOP = b"###STOP###"
_ACTORS: dict[Role, str] = {"user": "user", "tool": "executor"}
_ROLES: dict[str | None, Role] = {role: role for role in get_args(Role)}
_NULL = Raw(b"null")
_ERRORS: tuple[tuple[str, ErrorClass], ...] = (
    ("Unknown action", "unknown_tool"),
    ("not found", "not_found"),
    ("unexpected keyword argument", "schema"),
    ("required positional argument", "schema"),
)


class TauBench(Importer):
    """The result file that tau-bench's `run.py` writes."""

    name: ClassVar[str] = "tau-bench"
    mapping: ClassVar[int] = 1

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        whole = first is not None and {"task_id", "reward", "info", "traj"} <= first.keys()
        return Confidence.CERTAIN if whole else Confidence.NO

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        result = Fields(record.data, record.where)
        for name in ("task_id", "reward", "info", "traj"):
            if name not in result:
                raise result.fault(f"{name} is missing: this is no tau-bench result")
        yield _Result(result).draft


class _Result:
    """One result, being turned into a draft."""

    def __init__(self, result: Fields) -> None:
        info = result.inner("info")
        reward, reward_info = result.raw("reward") or _NULL, info.raw("reward_info") or _NULL
        error = info.take("error", str)
        self.step = 0
        self.stopped = bytes(reward_info) != b"null"
        self.calls = Calls()
        self.draft = EpisodeDraft(_started(result, info))
        for message in result.each("traj"):
            self._message(message)
        end = AgentError(error) if error is not None else Finished() if self.stopped else BudgetExhausted("steps")
        self.draft.add(EpisodeEnded(end, extra=self._rest(result)))
        if bytes(reward) != b"null":
            self.draft.add(_verification(result, reward, reward_info), actor="verifier")

    def _message(self, message: Fields) -> None:
        said = message.take("role", str)
        role = _ROLES.get(said)
        if role is None:
            raise message.fault("role is missing" if said is None else f"role {said[:40]!r} is none of the known")
        if role == "assistant":
            self._model(message)
        elif role == "tool" and (call := self.calls.answered(message.peek("tool_call_id", str))):
            self._feedback(message, *call)
        else:
            self._said(message, role)

    def _said(self, message: Fields, role: Role) -> None:
        content = message.raw("content") or _NULL
        self.stopped |= role == "user" and _STOP in bytes(content)
        name = message.take("name", str)
        said = MessageRecorded(role, content, name=name, step=self.step or None, extra=self._rest(message))
        self.draft.add(said, actor=_ACTORS.get(role))

    def _model(self, message: Fields) -> None:
        self.step += 1
        content = message.take("content", str)
        calls = [tool_call(call) for call in message.parts("tool_calls")]
        self.draft.add(ModelResponded(self.step, content=content, extra=self._rest(message)), actor="planner")
        for call in calls:
            version = self.draft.add(ActionSubmitted(self.step, call), actor="planner")
            self.calls.submitted(call.call_id, self.step, version)

    def _feedback(self, message: Fields, step: int, version: int) -> None:
        submitted = self.draft.events[version - 1].payload
        assert isinstance(submitted, ActionSubmitted)
        assert isinstance(submitted.action, ToolCall)
        message.drop("name", submitted.action.tool)
        call_id = message.take("tool_call_id", str)
        feedback = _answer(message.raw("content") or _NULL)
        recorded = FeedbackRecorded(step, feedback, call_id=call_id, action=version, extra=self._rest(message))
        self.draft.add(recorded, actor="executor")

    def _rest(self, fields: Fields) -> MaybeRaw:
        """What could not be mapped: counted, and returned to be kept."""
        rest = fields.rest()
        if isinstance(rest, Raw):
            self.draft.left(fields.unmapped())
        return rest


def _started(result: Fields, info: Fields) -> EpisodeStarted:
    name = result.take("task_id", int | str)
    if name is None:
        raise result.fault("task_id is null")
    task = info.inner("task")
    digest = sha256(task.verbatim).hexdigest() if task.verbatim else None
    return EpisodeStarted(
        task=f"tau-bench/{name}",
        goal=task.take("instruction", str),
        group=f"tau-bench/{name}/{digest[:12]}" if digest else None,
        rollout=result.take("trial", int),
        environment="tau-bench",
        task_digest=f"sha256:{digest}" if digest else None,
    )


def _answer(content: Raw) -> Feedback:
    text = msgspec.json.decode(content)
    if not isinstance(text, str) or not text.startswith(("Error", "Unknown action")):
        return ToolResult(tool_value(content))
    kind: ErrorClass = next((kind for sign, kind in _ERRORS if sign in text), "precondition")
    return ExecError(kind, retryable=False, effect="none", message=text)


def _verification(result: Fields, reward: Raw, reward_info: Raw) -> VerificationRecorded:
    """The reward as one external check that quotes it: within a millionth of 1 passes, as tau-bench
    itself counts."""
    try:
        value = msgspec.json.decode(reward, type=float)
    except ValueError:
        raise result.fault(f"reward: expected a number, got {bytes(reward)[:40].decode(errors='replace')}") from None
    verdict: Verdict = "pass" if abs(value - 1) <= 1e-6 else "fail"
    detail = joined({"reward": reward, "reward_info": reward_info})
    check = Check("reward", "external", verdict, detail=detail)
    return VerificationRecorded(Verification(verdict, [check], reward=value), source="import")
