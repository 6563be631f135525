"""ATIF, the Agent Trajectory Interchange Format, v1.0 to v1.8: one trajectory is one episode, each one
embedded in it another.

A step of the agent is a model turn, its tool calls the step's actions, its results their feedback; a
result that names no call is an observation. What was copied from another trajectory is recorded as
such. What our own exports carry in `extra.trajlog` is taken back. A step that no model was called for
(`llm_call_count` 0) is no model turn: its message is only recorded, its calls are actions.

Lenient, as is the default, a field that breaks the format's rules is kept in `extra`; strict, the
linter's first error rejects the trajectory.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, ClassVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from core.errors import BadEvent, BadRecord
from core.event import MAX_TEXT_BYTES
from core.times import from_text
from core.vocabulary.base import UNSET, MaybeRaw, Payload
from core.vocabulary.contract import Feedback, Finished, Observation, SubagentResult, ToolCall, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    Role,
)
from eventlog.interchange import Confidence, Context, EpisodeDraft, EventDraft, Importer, Record, Rejected
from eventlog.interchange.atif import images as atif_images
from eventlog.interchange.atif.lint import lint
from eventlog.interchange.atif.schema import NEWEST, minor_version
from eventlog.interchange.atif.turns import tools_of, turn_of
from eventlog.interchange.export.carried import take
from eventlog.interchange.export.restore import restored
from eventlog.interchange.mapping.contents import exact_value, goal_of, joined_text, parts_of, text_of
from eventlog.interchange.mapping.lenient import content_of, inner, objects, soft
from eventlog.interchange.mapping.messages import Calls, Fields, arguments_of
from eventlog.interchange.sources import Source
from eventlog.interchange.split import Reader

FINISHING = frozenset({"finish", "submit", "done", "complete", "task_complete", "mark_task_complete"})
"""Tools that an agent calls to declare itself done."""

_OBJECTS = list[dict[str, Raw]]
_NULL = Raw(b"null")
_EMPTY = Raw(b'""')


_STEP = frozenset({"step_id", "source", "message"})


class _Named(msgspec.Struct):
    trajectory_id: Any = None


_named = msgspec.json.Decoder(_Named).decode


class Atif(Importer):
    """Files that hold one trajectory, or several one after another, or a list of them."""

    name: ClassVar[str] = "atif"
    mapping: ClassVar[int] = 1

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        """Digests of the ids of this import's trajectories and of the trajectories themselves."""

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if first is None:
            return Confidence.NO
        if str(first.get("schema_version")).startswith("ATIF-v"):
            return Confidence.CERTAIN
        steps = first.get("steps")
        alike = isinstance(first.get("agent"), dict) and isinstance(steps, list)
        if alike and steps and isinstance(steps[0], dict) and steps[0].keys() >= _STEP:
            return Confidence.LIKELY
        return Confidence.NO

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        for item in super().records(source, reader):
            yield item._replace(twin=self._has_twin(item)) if isinstance(item, Record) else item

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        twin = record.twin
        if context.strict:
            _be_strict(record, context)
            if twin:
                name = _named(record.data).trajectory_id
                what = f"trajectory_id {name[:80]!r} is that of an earlier trajectory, which says other things"
                raise BadRecord(what)
        for draft in read(record.data, context):
            if twin:
                draft.unmapped["trajectory_id of an earlier trajectory, which says other things"] += 1
                twin = False
            yield draft

    def __reduce__(self) -> tuple[type["Atif"], tuple[()]]:
        """Another process maps what it is given; what is known stays here."""
        return Atif, ()

    def _has_twin(self, record: Record) -> bool:
        name = record.value.get("trajectory_id")
        if not isinstance(name, str):
            return False
        digest = _short(record.data)
        return self._known.setdefault(_short(name.encode(errors="replace")), digest) != digest


def read(data: bytes, context: Context) -> Iterator[EpisodeDraft]:
    """The episodes of a trajectory: its own, then those embedded in it, depth first."""
    for node in _Node(Fields(data, context.where), 0).all():
        yield _Trajectory(node, context).episode()


def plain(data: bytes, context: Context) -> list[EventDraft]:
    """What the fields of the outermost trajectory themselves say, nothing of what is carried."""
    return _Trajectory(_Node(Fields(data, context.where), 0), context).draft.events


class _Node:
    """A trajectory in the tree of those embedded in each other; `ordinal` is its place among all."""

    def __init__(self, fields: Fields, ordinal: int, parent: "_Node | None" = None) -> None:
        self.fields = fields
        self.ordinal = ordinal
        self.parent = parent
        self.last = ordinal
        self.session: str | None = soft(fields, "session_id", str, peek=True) or (parent.session if parent else None)
        self.children: dict[str, _Node] = {}
        self.inner: list[_Node] = []
        for embedded in objects(fields, "subagent_trajectories", apart=True):
            node = _Node(embedded, self.last + 1, self)
            self.last = node.last
            self.inner.append(node)
            name = soft(embedded, "trajectory_id", str, peek=True)
            if name:
                self.children.setdefault(name, node)

    def all(self) -> "Iterator[_Node]":
        yield self
        for node in self.inner:
            yield from node.all()

    def find(self, name: str | None) -> "_Node | None":
        """The embedded trajectory that a ref names, here or in what this is embedded in."""
        node: _Node | None = self
        while node is not None and name is not None:
            if name in node.children:
                return node.children[name]
            node = node.parent
        return None


class _Trajectory:
    """One trajectory, being turned into a draft. `step` counts the model turns."""

    def __init__(self, node: _Node, context: Context) -> None:
        self.node = node
        self.context = context
        self.calls = Calls()
        self.step = 0
        self.goal: str | None = None
        self.first_at: int | None = None
        self.ending = False
        self.conversation = _conversation(node.session)
        self.carried = take(node.fields)
        self.draft = EpisodeDraft()
        self._read(node.fields)

    def episode(self) -> EpisodeDraft:
        """The draft, with what lies beside the file and what was carried."""
        plain, dressed = self.draft.events, []
        for event in plain:
            event, lost = atif_images.dressed(event, self.context)
            dressed.append(event)
            self.draft.left(lost)
        if self.carried is not None:
            dressed, lost = restored(plain, dressed, self.carried, self.context)
            self.draft.unmapped.update(lost)
        self.draft.events = dressed
        return self.draft

    def _read(self, root: Fields) -> None:
        self._version(root)
        if root.get("steps") in (None, _NULL):
            raise root.fault("steps is missing: this is no ATIF trajectory")
        steps = list(root.each("steps"))
        if not steps:
            raise root.fault("steps is empty: nothing happened in this trajectory")
        filled = frozenset(self.carried.filled if self.carried else ())
        for name in filled - {"agent"}:
            root.raw(name)
        agent = inner(root, "agent") or Fields({}, root.where)
        versions = _versions(agent)
        started = EpisodeStarted(
            policy=soft(agent, "model_name", str),
            versions={} if "agent" in filled else versions,
            tools=tools_of(agent),
        )
        if self.conversation is not None:
            root.drop("session_id", self.conversation)
        for number, step in enumerate(steps, 1):
            self._step(step, number)
        continued = soft(root, "continued_trajectory_ref", str, peek=True) is not None
        self.draft.left(root.unmapped())
        started = replace(started, goal=self.goal, extra=root.rest())
        self.draft.events[0] = EventDraft(started, self.first_at, None, self.conversation)
        if self.ending and self.carried is None and not continued:
            self._add(EpisodeEnded(Finished()))

    def _version(self, root: Fields) -> None:
        version = soft(root, "schema_version", str, peek=True)
        minor = minor_version(version)
        if minor is not None:
            root.raw("schema_version")
        elif version is not None:
            raise root.fault(f"schema_version {version[:40]!r} is none of ATIF-v1.0 to ATIF-v1.{NEWEST}")
        else:
            self.draft.unmapped["schema_version is missing"] += 1
        if minor is not None and minor > NEWEST:
            self.draft.unmapped[f"ATIF-v1.{minor} read as ATIF-v1.{NEWEST}"] += 1

    def _step(self, step: Fields, expected: int) -> None:
        at = _time(step)
        step.drop("step_id", expected)
        step.drop("is_copied_context", False)
        copied = bool(soft(step, "is_copied_context", bool, peek=True))
        if not copied and self.first_at is None:
            self.first_at = at
        source = soft(step, "source", str)
        if source == "agent":
            self._agent(step, at, copied)
        elif source in ("system", "user"):
            self._said(step, at, "system" if source == "system" else "user", copied)
        else:
            raise step.fault(f"source {str(source)[:40]!r} is not system, user or agent")

    def _said(self, step: Fields, at: int | None, role: Role, copied: bool) -> None:
        content = content_of(step, "message")
        if role == "user" and self.goal is None and not copied and content is not None:
            self.goal = goal_of(content)
        results = _results(step)
        said = MessageRecorded(role, content or _NULL, step=self.step or None, extra=self._rest(step))
        self._add(said, at, "user" if role == "user" else None)
        self.ending = False
        self._answers(results)

    def _agent(self, step: Fields, at: int | None, copied: bool) -> None:
        calls = [_call(call) for call in objects(step, "tool_calls")]
        results = _results(step)
        if not copied and soft(step, "llm_call_count", int, peek=True) == 0:
            self._dispatched(step, at, bool(calls))
        else:
            self.step += 1
            turn = turn_of(step, self.step, copied)
            self._add(replace(turn, extra=self._rest(step)), at, "planner")
        for call in calls:
            version = self._add(ActionSubmitted(self.step, call), at, "planner")
            self.calls.submitted(call.call_id, self.step, version)
        silent = not calls and not results
        self.ending = not copied and (silent or any(call.tool in FINISHING for call in calls))
        self._answers(results)

    def _dispatched(self, step: Fields, at: int | None, acts: bool) -> None:
        """A step that no model was called for."""
        step.raw("llm_call_count")
        self.step += acts
        content = content_of(step, "message") or _EMPTY
        extra = self._rest(step)
        if not acts or bytes(content) != bytes(_EMPTY) or isinstance(extra, Raw):
            self._add(MessageRecorded("assistant", content, step=self.step or None, extra=extra), at, "planner")

    def _answers(self, results: list[Fields]) -> None:
        for result in results:
            call_id = soft(result, "source_call_id", str)
            found = None if call_id is None else self.calls.answered(call_id)
            step, action = found or (max(self.step, 1), None)
            feedback = self._feedback(result, call_id)
            recorded = FeedbackRecorded(step, feedback, call_id=call_id, action=action, extra=self._rest(result))
            self._add(recorded, None, "executor")

    def _feedback(self, result: Fields, call_id: str | None) -> Feedback:
        child = self._child(result)
        if child is not None:
            value = content_of(result, "content")
            return SubagentResult(self.context.episode(child.ordinal), value=UNSET if value is None else value)
        content = content_of(result, "content")
        if content is not None and bytes(content).startswith(b"[") and (call_id is None or _shows(content)):
            result.put("content", content)
            return Observation(text=joined_text(content))
        if call_id is None:
            return Observation(text=None if content is None else msgspec.json.decode(content, type=str))
        return ToolResult(_NULL if content is None else exact_value(content))

    def _child(self, result: Fields) -> _Node | None:
        """The embedded trajectory that a result refers to, if it is one and the only one."""
        refs = soft(result, "subagent_trajectory_ref", _OBJECTS, peek=True) or []
        name = refs[0].get("trajectory_id") if len(refs) == 1 else None
        child = self.node.find(None if name is None else text_of(name))
        if child is not None:
            result.parts("subagent_trajectory_ref")[0].raw("trajectory_id")
        return child

    def _rest(self, fields: Fields) -> MaybeRaw:
        """What has no place in the event: counted, and returned to be kept."""
        rest = fields.rest()
        if isinstance(rest, Raw):
            self.draft.left(fields.unmapped())
        return rest

    def _add(self, payload: Payload, at: int | None = None, actor: str | None = None) -> int:
        return self.draft.add(payload, occurred_at=at, actor=actor, conversation=self.conversation)


def _short(data: bytes) -> int:
    return int.from_bytes(sha256(data).digest()[:8])


def _be_strict(record: Record, context: Context) -> None:
    errors = [
        finding for finding in lint(msgspec.json.decode(record.data), context.folder) if finding.severity == "error"
    ]
    if errors:
        more = f" (and {len(errors) - 1:,} more: see trajlog atif lint)" if len(errors) > 1 else ""
        raise BadRecord(f"{errors[0].path} {errors[0].message}{more}", where=record.where)


def _versions(agent: Fields) -> dict[str, str]:
    name, version = soft(agent, "name", str, peek=True), soft(agent, "version", str, peek=True)
    if name is None or version is None:
        return {}
    agent.raw("name")
    agent.raw("version")
    return {name: version}


def _call(call: Fields) -> ToolCall:
    name = soft(call, "function_name", str)
    if name is None:
        raise call.fault("function_name is missing")
    args, text = arguments_of(call.raw("arguments"))
    return ToolCall(name, args, soft(call, "tool_call_id", str), text)


def _results(step: Fields) -> list[Fields]:
    observation = inner(step, "observation")
    return [] if observation is None else objects(observation, "results", apart=True)


def _time(step: Fields) -> int | None:
    text = soft(step, "timestamp", str, peek=True)
    if text is None:
        return None
    try:
        at = from_text(text)
    except BadEvent:
        return None
    step.raw("timestamp")
    return at


def _conversation(session: str | None) -> str | None:
    """The session as the conversation that spans episodes, if it may be one."""
    fits = bool(session) and "\0" not in str(session) and len(str(session).encode()) <= MAX_TEXT_BYTES
    return session if fits else None


def _shows(content: Raw) -> bool:
    """Whether a list of parts holds anything but text."""
    return any(part.get("type") != "text" for part in parts_of(content))
