"""mini-swe-agent trajectories: `{messages, info, trajectory_format}`, or a bare list of messages.

An assistant's message is a step. Its actions are the calls and commands that the file itself records
(`tool_calls`, `extra.actions`). Commands that stand in the text alone are left there, and what came
back for them is the user's message that it is.
"""

import re
from collections.abc import Iterator
from typing import Any, ClassVar, get_args

import msgspec
from msgspec import Raw

from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import (
    BudgetExhausted,
    End,
    ErrorClass,
    ExecError,
    Feedback,
    Finished,
    ToolCall,
    ToolResult,
)
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    Role,
)
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Reader, Record, Rejected, Source
from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.completions import finish_of, text_of_output, usage_of
from eventlog.interchange.mapping.extras import extended, raw
from eventlog.interchange.mapping.messages import Calls, Fields, tool_call
from eventlog.interchange.records import Layout, find_layout, records
from eventlog.interchange.sources import HEAD
from eventlog.interchange.swe import runs as swe
from eventlog.interchange.swe.message_lists import begins_one, message_lists

_NULL = Raw(b"null")
_ROLES: dict[str, Role] = {role: role for role in get_args(Role)}
_YEAR_10000 = 253_402_300_800
_ACTORS: dict[Role, str] = {"user": "user", "tool": "executor"}
_SUBMIT = re.compile(r"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT|MINI_SWE_AGENT_FINAL_OUTPUT")
_OWN_WORDS = re.compile(_SUBMIT.pattern.encode() + rb"|mswea_bash_command|<returncode>")


class MiniSweAgent(Importer):
    """The files of mini-swe-agent 1.x and 2.x."""

    name: ClassVar[str] = "mini-swe-agent"
    mapping: ClassVar[int] = 1

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if first is None:
            return Confidence.NO
        if isinstance(first.get("messages"), list):
            if str(first.get("trajectory_format")).startswith("mini-swe-agent"):
                return Confidence.CERTAIN
            info = first.get("info")
            known = isinstance(info, dict) and info.keys() & {"exit_status", "model_stats", "mini_version"}
            return Confidence.LIKELY if known else Confidence.NO
        if "content" in first and begins_one(head):
            return Confidence.LIKELY if _OWN_WORDS.search(head) else Confidence.POSSIBLE
        return Confidence.NO

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        layout = find_layout(source, reader)
        if layout is Layout.ARRAY and begins_one(reader.peek(HEAD)):
            return message_lists(source, reader)
        return records(source, reader, layout)

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        bare = record.data.startswith(b"[")
        run = Fields({"messages": Raw(record.data)} if bare else record.data, record.where)
        if "messages" not in run:
            raise run.fault("messages is missing: this is no mini-swe-agent trajectory")
        yield _Run(run, context).draft


class _Stats(msgspec.Struct):
    instance_cost: float | None = None
    api_calls: int | None = None


class _Run:
    """One run, being turned into a draft. `rest` is of the message that the harness ends a run with."""

    def __init__(self, run: Fields, context: Context) -> None:
        self.keep = context.keep
        self.step = 0
        self.cost: float | None = None
        self.calls = Calls()
        self.last: Raw | None = None
        messages = list(run.each("messages"))
        if not messages:
            raise run.fault("messages is empty: nothing was said")
        info = Fields(run.raw("info") or _NULL, run.where, "info")
        told = messages[-1].peek("extra", Any) if messages[-1].peek("role", Any) == "exit" else None
        self.status = info.peek("exit_status", str) or swe.text_at(told, "exit_status")
        self.submission = info.peek("submission", Any) or swe.at(told, "submission")
        end = _end(self.status, self.submission, info, messages)
        self.draft = EpisodeDraft(_started(run, info, messages))
        self.draft.left(run.unmapped())
        for message in messages:
            self._message(message)
        if swe.submit(self.draft, self.step, self.status, self.submission):
            info.drop("submission", self.submission)
        if self.cost is None:
            swe.charge(self.draft, "money", _stats(info).instance_cost or 0.0)
        known = {name: info.raw(name) for name in ("exit_status", "model_stats")}
        rest = extended(self._rest(info), **known, message=self.last)
        if end is not None:
            self.draft.add(EpisodeEnded(end, extra=rest))
        else:
            swe.begin_with(self.draft, info=raw(rest))

    def _message(self, message: Fields) -> None:
        role = message.take("role", str) or _role_of(message)
        extra = message.inner("extra")
        at = message.take("timestamp", float) or extra.take("timestamp", float)
        if at is not None and not 0 <= at < _YEAR_10000:
            raise message.fault("timestamp: no seconds since 1970 before the year 10000")
        occurred_at = None if at is None else round(at * 1e6)
        if role == "exit":
            message.drop("content", self.submission)
            extra.drop("submission", self.submission)
            extra.drop("exit_status", self.status)
            self.last = raw(self._rest(message))
        elif role == "assistant":
            self._turn(message, extra, occurred_at)
        elif role in _ROLES:
            self._said(message, extra, _ROLES[role], occurred_at)
        else:
            raise message.fault(f"role: no role {role[:40]!r} is known" if role else "role is missing")

    def _turn(self, message: Fields, extra: Fields, at: int | None) -> None:
        self.step += 1
        answer = message if message.peek("object", Any) == "response" else _answer(extra)
        content = message.raw("content")
        value = text_of_output(message.peek("output", Any)) if content is None else msgspec.json.decode(content)
        parts = images.kept(content, self.keep, message.fault) if content and isinstance(value, list) else None
        calls = [tool_call(call) for call in message.parts("tool_calls")]
        calls = _commands(extra, calls) or calls
        cost = extra.take("cost", float)
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost
        turn = ModelResponded(
            self.step,
            content=swe.text_of(value, message.fault),
            thought=message.take("reasoning_content", str),
            model=answer.peek("model", str),
            usage=usage_of(answer),
            cost=cost,
            finish_reason=finish_of(answer),
            extra=extended(self._rest(message), content=parts),
        )
        self.draft.add(turn, occurred_at=at, actor="planner")
        for call in calls:
            version = self.draft.add(ActionSubmitted(self.step, call), occurred_at=at, actor="planner")
            self.calls.submitted(call.call_id, self.step, version)

    def _said(self, message: Fields, extra: Fields, role: Role, at: int | None) -> None:
        call_id = message.peek("tool_call_id", str) or message.peek("call_id", str)
        ran = role == "tool" or any(extra.peek(name, Any) is not None for name in ("raw_output", "returncode"))
        call = self.calls.answered(call_id) if ran else None
        content = message.raw("content") or message.raw("output") or _NULL
        content = images.kept(content, self.keep, message.fault)
        if call is None:
            said = MessageRecorded(role, content, step=self.step or None, extra=self._rest(message))
            self.draft.add(said, occurred_at=at, actor=_ACTORS.get(role))
            return
        for name in ("tool_call_id", "call_id"):
            message.drop(name, call_id)
        feedback = _feedback(content, extra.peek("exception_info", Any))
        step, version = call
        recorded = FeedbackRecorded(step, feedback, call_id=call_id, action=version, extra=self._rest(message))
        self.draft.add(recorded, occurred_at=at, actor="executor")

    def _rest(self, fields: Fields) -> MaybeRaw:
        """What could not be mapped: counted, and returned to be kept."""
        rest = fields.rest()
        if isinstance(rest, Raw):
            self.draft.left(fields.unmapped())
        return rest


def _started(run: Fields, info: Fields, messages: list[Fields]) -> EpisodeStarted:
    config = info.peek("config", Any)
    versions = {
        "mini-swe-agent": info.take("mini_version", str),
        "trajectory_format": run.take("trajectory_format", str),
    }
    requests = (message.peek("content", Any) for message in messages if message.peek("role", Any) == "user")
    request = next(requests, None)
    return EpisodeStarted(
        task=run.take("instance_id", str),
        goal=swe.goal_of(swe.text_of(request, run.fault)),
        policy=swe.text_at(config, "model", "model_name"),
        environment=swe.text_at(config, "environment", "image"),
        versions={name: version for name, version in versions.items() if version},
        extra=run.rest(),
    )


def _end(status: str | None, submission: Any, info: Fields, messages: list[Fields]) -> End | None:
    """None where nothing says that it ended: a bare list says so by its last command alone."""
    if status == "LimitsExceeded":
        limit, calls = swe.at(info.peek("config", Any), "agent", "step_limit"), _stats(info).api_calls
        of_steps = isinstance(limit, int) and calls is not None and 0 < limit <= calls
        return BudgetExhausted("steps" if of_steps else "money")
    if status:
        return swe.end_of(status, submission)
    turns = [message.peek("content", Any) for message in messages if message.peek("role", Any) == "assistant"]
    submitted = info.verbatim is None and turns and isinstance(turns[-1], str) and _SUBMIT.search(turns[-1])
    return Finished() if submitted else None


def _stats(info: Fields) -> _Stats:
    stats: _Stats = info.peek("model_stats", _Stats) or _Stats()
    return stats


def _role_of(message: Fields) -> str:
    """The role of what the responses API has instead of a message."""
    if message.peek("object", Any) == "response":
        return "assistant"
    if message.peek("type", Any) == "function_call_output":
        message.drop("type", "function_call_output")
        return "tool"
    return ""


def _answer(extra: Fields) -> Fields:
    """What the model server answered, to be read only."""
    answer = extra.peek("response", Any)
    data = msgspec.json.encode(answer) if isinstance(answer, dict) else b"null"
    return Fields(data, extra.where, f"{extra.path}.response")


def _commands(extra: Fields, calls: list[ToolCall]) -> list[ToolCall]:
    """The commands that the harness took from the turn, unless they are the calls that it made."""
    actions = extra.peek("actions", Any)
    if not isinstance(actions, list) or not all(_is_command(action) for action in actions):
        return []
    if calls and [action["command"] for action in actions] != [_command_of(call) for call in calls]:
        return []
    extra.raw("actions")
    return [] if calls else [swe.bash(action["command"], action.get("tool_call_id")) for action in actions]


def _is_command(action: Any) -> bool:
    return (
        isinstance(action, dict)
        and isinstance(action.get("command"), str)
        and isinstance(action.get("tool_call_id"), str | None)
        and action.keys() <= {"command", "tool_call_id"}
    )


def _command_of(call: ToolCall) -> Any:
    args = msgspec.json.decode(call.args)
    return args.get("command") if isinstance(args, dict) else None


def _feedback(content: Raw, exception: Any) -> Feedback:
    if not exception:
        return ToolResult(content)
    said = str(exception)
    refused = "not executed" in said
    kind: ErrorClass = "precondition" if refused else "timeout" if "time" in said.lower() else "backend_bug"
    text = msgspec.json.decode(content)
    message = text if isinstance(text, str) else said
    return ExecError(kind, retryable=False, effect="none" if refused else "unknown", message=message)
