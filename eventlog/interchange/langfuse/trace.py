"""The rows of one Langfuse trace as an episode.

Generations are steps, tools answer the call of their name, everything else is kept. Events are told
in the order in which things ended. A trace without observations is one turn, from its own input and
output. Scores are quoted as external checks; only those of the whole trace decide.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from core.errors import BadRecord
from core.vocabulary import BlobRef
from core.vocabulary.base import UNSET, Verdict
from core.vocabulary.contract import AgentError, Check, ExecError, Feedback, Finished, ToolCall, ToolResult
from core.vocabulary.episode import EpisodeEnded, EpisodeStarted, ToolSpec
from eventlog.interchange.draft import EpisodeDraft, EventDraft
from eventlog.interchange.langfuse.rows import ANY, EMPTY, TEXT, VALUE, Row, cost_of, time_of, unquoted, usage_of
from eventlog.interchange.mapping import images, verdicts
from eventlog.interchange.mapping.extras import extended
from eventlog.interchange.mapping.messages import shallow, tool_value
from eventlog.interchange.mapping.points import Point, play
from eventlog.interchange.mapping.said import Known, answers, call_of, messages
from eventlog.interchange.mapping.specs import specs_of
from eventlog.interchange.mapping.turns import NULL, Conversation, Said, fitting, short, text_of

Keep = Callable[[bytes], BlobRef]
T = TypeVar("T", bound=Row)

_encode = msgspec.json.encode
_NO_FIELDS = Raw(b"{}")
_CALL_IDS = ("tool_call_id", "toolCallId")


class _Rows(msgspec.Struct):
    """The rows of a trace."""

    trace: list[Raw] = []
    observations: list[Raw] = []
    scores: list[Raw] = []


_read = msgspec.json.Decoder(_Rows).decode


def episode(data: bytes, where: str, keep: Keep) -> EpisodeDraft:
    """The episode of a trace's rows: `{trace: [], observations: [], scores: []}`."""
    return _Trace(_read(data), where, keep).draft


class _Observation(Row):
    """An observation and what every mapping needs of it; times in µs."""

    observed = True

    def tell(self) -> None:
        """Take out what it says."""
        plain = self.take_plain()
        self.type = plain.type or ""
        self.parent = plain.parent_observation_id or None
        self.name = plain.name or None
        self.start = time_of(plain.start_time)
        self.end = time_of(plain.end_time)
        self.failed = plain.level == "ERROR"
        self.message = plain.status_message or None
        self.model = plain.model or self.take("providedModelName", TEXT)

    @property
    def latency_ms(self) -> float | None:
        if self.start is None or self.end is None or self.end < self.start:
            return None
        return (self.end - self.start) / 1000


class _Trace:
    """A trace, being turned into a draft."""

    def __init__(self, record: _Rows, where: str, keep: Keep) -> None:
        self.draft = EpisodeDraft()
        self.unmapped = self.draft.unmapped
        self.keep = keep
        self.where = where
        self.told = Conversation(self.draft)
        self.known: Known = {}
        self.policy: str | None = None
        self.tools: list[ToolSpec] | None = None
        self.kept: list[Raw] = []
        self.trace = self._latest(Row, record.trace, "trace", "trace")[:1] if record.trace else []
        self.observations = self._latest(_Observation, record.observations, "observations", "observation")
        for each in self.observations:
            each.tell()
        self.ids = {each.id for each in self.observations}
        self.names = frozenset().union(*[row.names for row in (*self.trace, *self.observations)])
        self.shared = {name: self._shared(name) for name in _OF_TRACE if name in self.names}
        self.session = fitting(self.shared.get("sessionId"))
        if "sessionId" in self.shared:
            self.shared["sessionId"] = self.session
        self._tell()
        self._end()
        if record.scores:
            self._judge(record.scores)

    def _latest(self, type_: type[T], given: list[Raw], name: str, kind: str) -> list[T]:
        """Each row once: of several of one id the one that was updated last, in the place of the first."""
        path = f"{name}[]"
        rows = [type_(each, self.where, path) for each in given]
        found: dict[Any, tuple[str, T]] = {}
        for row in rows:
            updated = row.peek("updatedAt", TEXT) or ""
            if row.id in found:
                self.unmapped[f"{kind} exported again with other content: the one updated last counts"] += 1
                if updated < found[row.id][0]:
                    continue
            found[row.id] = updated, row
        return [row for _, row in found.values()]

    def _shared(self, name: str) -> str | None:
        """What a trace says of itself, or, where rows were enriched with it, the first that says it."""
        for row in (*self.trace, *self.observations):
            value = row.peek(name, TEXT)
            if value is not None:
                return value
        return None

    def _tell(self) -> None:
        play(self._points())
        if not self.observations:
            self._turn()
        started_at = min([each.start for each in self.observations if each.start is not None], default=None)
        if started_at is None and self.trace:
            started_at = time_of(self.trace[0].peek("timestamp", TEXT))
        said, about = self._about()
        asked = [each.text for each in messages(said) if each.role == "user" and each.text]
        extra = extended(
            trace=about,
            input=said if self.observations else None,
            observations=Raw(_encode(self.kept)) if self.kept else None,
        )
        started = EpisodeStarted(
            goal=short(asked[0] if asked else self.told.goal),
            policy=self.policy,
            environment=self.shared.get("environment"),
            versions={name: value for name in ("release", "version") if (value := self.shared.get(name))},
            tools=self.tools,
            extra=extra,
        )
        self.draft.events[0] = EventDraft(started, started_at, conversation=self.session)

    def _about(self) -> tuple[Raw | None, Raw | None]:
        """The trace's own input, and what its row, or else its first observation, says of it besides."""
        if not self.trace:
            about: dict[str, Raw] = {}
            for name in filter(self.names.__contains__, _ENRICHED):
                for each in self.observations:
                    value = each.json(name)
                    if value is not None and value not in EMPTY:
                        about.setdefault(name, value)
            return None, Raw(_encode(about)) if about else None
        row = self.trace[0]
        said = row.take_json("input")
        row.drop("id", "timestamp", "createdAt", "updatedAt", *_OF_TRACE)
        if not self.observations:
            row.drop("output")
        return said, Raw(_encode({"id": row.id} | self._counted(row)))

    def _points(self) -> Iterator[Point]:
        for order, each in enumerate(self.observations):
            if each.parent is not None and each.parent not in self.ids:
                self.unmapped["observation without its parent: kept, no parent was made up"] += 1
            begun, ended = each.start or each.end or 0, each.end or each.start or 0
            if each.type == "GENERATION":
                yield ended, 0, order, self._generation, (each,)
            elif each.type == "TOOL":
                tool = _tool_of(each)
                yield begun, 1, order, self._submit, (each, tool)
                yield ended, 2, order, self._answer, (each, tool)
            else:
                yield ended, 3, order, self._other, (each,)

    def _generation(self, each: _Observation) -> None:
        given = each.take_json("input")
        prompt = messages(self._images(given), self.known)
        beside = _beside(given)
        self._specs(each, beside)
        self.told.hear(prompt, each.start, conversation=self.session)
        found = answers(self._images(each.take_json("output")))
        said, others = (found[0], found[1:]) if found else (Said("assistant"), [])
        listed = each.take_json("toolCalls")
        said = _with_calls(said, listed)
        self.policy = self.policy or each.model
        usage, cost = usage_of(each), cost_of(each)
        sampling = each.take_json("modelParameters")
        if others:
            self.unmapped["further choice: kept in extra"] += len(others)
        if beside:
            self.unmapped["input beside the messages: kept in extra"] += 1
        extra = extended(
            said.extra,
            input=Raw(_encode(beside)) if beside else None,
            choices=Raw(_encode([other.content for other in others])) if others else None,
            message=Raw(_encode(each.message)) if each.message else None,
            observation=self._rest(each),
        )
        self.told.respond(
            said,
            each.end or each.start,
            conversation=self.session,
            model=each.model,
            usage=usage,
            cost=cost,
            finish_reason=said.finish or ("error" if each.failed else None),
            latency_ms=each.latency_ms,
            sampling=sampling if sampling is not None and sampling != _NO_FIELDS else UNSET,
            extra=extra,
        )

    def _submit(self, each: _Observation, tool: ToolCall) -> None:
        if self.told.waiting(tool.call_id, tool.tool, tool.args) is None:
            self.told.submit(tool, each.start, conversation=self.session)

    def _answer(self, each: _Observation, tool: ToolCall) -> None:
        asked = self.told.waiting(tool.call_id, tool.tool, tool.args) or tool
        differing = tool.args if asked.args != tool.args and tool.args != NULL else None
        result = each.take_json("output")
        feedback: Feedback = ToolResult(tool_value(result or NULL))
        if each.failed:
            told = None if result is None else text_of(result) or bytes(result).decode()
            feedback = ExecError("backend_bug", retryable=False, effect="unknown", message=each.message or told)
        kept = result if each.failed and each.message and result else None
        self.told.answer(
            feedback,
            each.end or each.start,
            call_id=tool.call_id,
            tool=tool.tool,
            args=tool.args,
            conversation=self.session,
            latency_ms=each.latency_ms,
            extra=extended(arguments=differing, output=kept, observation=self._rest(each)),
        )

    def _other(self, each: _Observation) -> None:
        """An observation that is no event of its own: kept whole."""
        self.unmapped[f"observation {each.type[:40]}: kept in extra"] += 1
        self.kept.append(each.whole)

    def _turn(self) -> None:
        """A trace without observations: what went in and what came out."""
        if not self.trace:
            return
        trace = self.trace[0]
        at = time_of(trace.peek("timestamp", TEXT))
        given, out = trace.json("input"), answers(self._images(trace.json("output")))
        self.told.hear(messages(self._images(given)), at, conversation=self.session)
        for said in out:
            self.told.respond(said, None, conversation=self.session)

    def _end(self) -> None:
        last: _Observation | None = None
        for each in self.observations:
            if each.parent is None or each.parent not in self.ids:
                last = each if last is None or (each.end or 0) > (last.end or 0) else last
        if last is None or last.end is None:
            self.unmapped["no observation at the root that ended: how the episode ended is not known"] += 1
            return
        end = AgentError(short(last.message)) if last.failed else Finished()
        self.draft.add(EpisodeEnded(end), occurred_at=last.end, conversation=self.session)

    def _judge(self, scores: list[Raw]) -> None:
        checks: list[Check] = []
        rewards: list[float] = []
        whys: list[str] = []
        at: int | None = None
        for row in self._latest(Row, scores, "scores", "score"):
            name, value, label = row.take("name", TEXT), row.take("value", VALUE), row.take("stringValue", TEXT)
            of_trace = row.take("observationId", TEXT) is None
            verdict = _verdict(name or "score", row.take("dataType", TEXT), value, label)
            checks.append(verdicts.quoted(name or "score", verdict, row.whole, decides=of_trace))
            if of_trace and value is not None:
                rewards.append(float(value))
            whys += [why] if (why := row.take("comment", TEXT)) else []
            at = max(filter(None, (at, time_of(row.take("timestamp", TEXT)))), default=None)
        if checks:
            reward = rewards[0] if len(rewards) == 1 else None
            why = short(whys[0]) if len(checks) == 1 and whys else None
            self.draft.add(verdicts.verification(checks, reward=reward, why=why), occurred_at=at, actor="verifier")

    def _images(self, content: Raw | None) -> Raw | None:
        """Messages with the images in their content stored as blobs."""
        if content is None or b"base64" not in bytes(content):
            return content
        return Raw(_encode(self._put_images(msgspec.json.decode(content))))

    def _put_images(self, value: Any) -> Any:
        if isinstance(value, dict):
            if isinstance(value.get("content"), list):
                kept = images.kept(Raw(_encode(value["content"])), self.keep, self.fault)
                return value | {"content": kept}
            return {name: self._put_images(item) for name, item in value.items()}
        return [self._put_images(item) for item in value] if isinstance(value, list) else value

    def fault(self, what: str) -> BadRecord:
        return BadRecord(what, where=self.where)

    def _specs(self, each: _Observation, beside: dict[str, Raw]) -> None:
        """The tools that the first generation which lists any lists."""
        defined = each.take_json("toolDefinitions")
        named = None if defined is None else shallow(defined)
        if isinstance(named, dict):
            listed, whole = specs_of([_named(name, spec) for name, spec in named.items()])
        elif "tools" in beside:
            listed, whole = specs_of(msgspec.json.decode(beside["tools"]))
        else:
            return
        self.tools = self.tools or listed or None
        if whole and listed and listed == self.tools:
            beside.pop("tools", None)

    def _rest(self, each: _Observation) -> Raw | None:
        """What an observation held besides, with its id and name."""
        for name, value in self.shared.items():
            if each.peek(name, TEXT) == value:
                each.drop(name)
        known = {"id": each.id, "parentObservationId": each.parent, "name": each.name}
        return Raw(_encode({k: v for k, v in known.items() if v is not None} | self._counted(each, _KNOWN)))

    def _counted(self, row: Row, known: frozenset[str] = frozenset()) -> dict[str, Raw]:
        """What a row held besides, and what is `known`, counted."""
        left = row.rest(known)
        for name in left:
            self.unmapped[f"{row.path}.{name}: kept in extra"] += 1
        return left


_OF_TRACE = ("sessionId", "environment", "release", "version")
_ENRICHED = ("projectId", "traceName", "userId", "tags", "public", "bookmarked")
_KNOWN = frozenset({"id", "updatedAt", "createdAt", "latency", "traceId", "toolCallNames", *_ENRICHED})


def _tool_of(each: _Observation) -> ToolCall:
    args = each.take_json("input") or NULL
    text = shallow(args)
    if isinstance(text, str):
        args = NULL
    else:
        text = None
    about = each.peek("metadata", ANY)
    ids = [about.get(name) for name in _CALL_IDS] if isinstance(about, dict) else []
    call_id = next((id_ for id_ in ids if isinstance(id_, str)), None)
    return ToolCall(tool=each.name or "tool", args=args, args_text=text, call_id=call_id)


def _with_calls(said: Said, listed: Raw | None) -> Said:
    """The answer with the calls that the export lists apart, if it names none itself."""
    items = None if said.calls or listed is None else shallow(listed)
    if not isinstance(items, list):
        return said
    found = [fields for item in items if isinstance(fields := shallow(unquoted(item)), dict)]
    calls = [made for fields in found if (made := call_of(fields)) is not None]
    return replace(said, calls=tuple(calls))


def _beside(given: Raw | None) -> dict[str, Raw]:
    """What a generation's input holds beside its messages, such as the tools it was shown."""
    fields = None if given is None else shallow(given)
    if not isinstance(fields, dict) or not isinstance(shallow(fields.pop("messages", NULL)), list):
        return {}
    return fields


def _named(name: str, spec: Raw) -> Any:
    inner = msgspec.json.decode(unquoted(spec))
    return {"name": name} | inner if isinstance(inner, dict) else {"name": name}


def _verdict(name: str, kind: str | None, value: float | bool | None, label: str | None) -> Verdict:
    if kind == "BOOLEAN" or isinstance(value, bool):
        return "inconclusive" if value is None else verdicts.by_boolean(name, bool(value))
    return verdicts.by_label(label) if kind in ("CATEGORICAL", None) else "inconclusive"
