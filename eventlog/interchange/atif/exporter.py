"""ATIF v1.8 out: each message and each model turn is a step, calls and feedback lie in the step they
belong to. What ATIF has no field for is carried in `extra.trajlog`; what was imported from ATIF goes
back to where it stood. The sub-agents that a result refers to are embedded.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Raw

from core.event import StoredEvent
from core.times import to_text
from core.vocabulary.contract import SubagentResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
)
from eventlog.interchange.atif import content as atif_content
from eventlog.interchange.atif import importer as atif
from eventlog.interchange.atif.lint import lint
from eventlog.interchange.atif.schema import SCHEMA
from eventlog.interchange.atif.turns import definition_of, metrics_of
from eventlog.interchange.draft import Context
from eventlog.interchange.export.carried import NAME, VERSION
from eventlog.interchange.export.carry import texts, to_carry
from eventlog.interchange.export.exporter import Exporter, Library, encode, recording, referring
from eventlog.interchange.export.put_back import put_back
from eventlog.interchange.export.recorded import Recorded, extra_of, object_of, of_draft
from eventlog.interchange.mapping.action_calls import Calls, call_of

Json = dict[str, Any]

MAX_DEPTH = 16
"""How deep trajectories are embedded in each other."""


class Atif(Exporter):
    """One trajectory for each episode."""

    name: ClassVar[str] = "atif"

    def document(self, episode: str, events: Sequence[StoredEvent], library: Library) -> bytes:
        made = _Tree(library).trajectory(episode, events, ())
        self.embedded.update(made.inside)
        return encode(made.document)


class _Made:
    """A trajectory, and the episodes embedded in it, depth first."""

    def __init__(self, document: Json, inside: list[str]) -> None:
        self.document = document
        self.inside = inside


class _Tree:
    """Trajectories embedded in each other."""

    def __init__(self, library: Library) -> None:
        self.library = library

    def trajectory(self, episode: str, events: Sequence[StoredEvent], above: tuple[str, ...]) -> _Made:
        recorded = recording(episode, events, self.library.fetch)
        children = self._children(recorded, (*above, episode))
        made = _Made({}, [name for child, inner in children.items() for name in (child, *inner.inside)])
        for native in (True, False):
            writer = _Writer(episode, recorded, self.library, children, native)
            made.document = writer.document()
            if self.library.bare:
                _bare(made.document)
            if not writer.native or not _breaks_a_rule(made.document):
                break
        return made

    def _children(self, recorded: list[Recorded], above: tuple[str, ...]) -> dict[str, _Made]:
        found: dict[str, _Made] = {}
        for event in recorded:
            payload = event.payload
            if not isinstance(payload, FeedbackRecorded) or not isinstance(payload.feedback, SubagentResult):
                continue
            child = payload.feedback.child_episode
            events = () if child in (*above, *found) or len(above) > MAX_DEPTH else self.library.events(child)
            if events:
                found[child] = self.trajectory(child, events, above)
        return found


class _Step:
    """A step being written: its object, the event it is, and the events of its calls and results."""

    def __init__(self, source: str, message: Any, place: int | None, number: int | None) -> None:
        self.object: Json = {"source": source, "message": message}
        self.place = place
        self.number = number
        self.takes_calls = False
        self.calls: list[tuple[int, Json]] = []
        self.results: list[tuple[int, Json]] = []

    def written(self, step_id: int) -> Json:
        made: Json = {"step_id": step_id} | self.object
        if self.calls:
            made["tool_calls"] = [call for _, call in self.calls]
        if self.results:
            made["observation"] = {"results": [result for _, result in self.results]}
        return made


class _Writer:
    """An episode on its way into a trajectory. With `native`, what was imported from ATIF and has no
    place in the vocabulary goes back to where it stood."""

    def __init__(
        self, episode: str, recorded: list[Recorded], library: Library, children: dict[str, _Made], native: bool
    ) -> None:
        self.episode = episode
        self.recorded = recorded
        self.library = library
        self.children = children
        started = recorded[0].payload
        assert isinstance(started, EpisodeStarted)
        self.started = started
        self.native = native and started.origin is not None and started.origin.format == "atif"
        self.steps: list[_Step] = []
        self.calls: Calls[_Step] = Calls()
        self.filled: list[str] = []

    def document(self) -> Json:
        for place, recorded in enumerate(self.recorded):
            self._event(place, recorded)
        if not self.steps:
            self.steps.append(_Step("system", "", None, None))
        document = self._root()
        if self.native:
            for step, made in zip(self.steps, document["steps"], strict=True):
                self._put_back(step, made)
            put_back(document, extra_of(self.started), "trajectory")
        extra = document.pop("extra", {})
        inner = document.pop("subagent_trajectories", None)
        document["extra"] = extra | {NAME: {"version": VERSION, "filled": self.filled}}
        if inner is not None:
            document["subagent_trajectories"] = inner
        document["extra"][NAME] = self._carried(document)
        return document

    def _carried(self, document: Json) -> Json:
        inside = [name for child, made in self.children.items() for name in (child, *made.inside)]
        context = Context(self.episode, "train", referring, episode=lambda ordinal: ([self.episode, *inside])[ordinal])
        data = encode(document)
        plain = [of_draft(event) for event in atif.plain(data, context)]
        places: list[int | None] = [0]
        for step in self.steps:
            if step.place is not None or not step.calls:
                places.append(step.place)
            places += [place for place, _ in (*step.calls, *step.results)]
        carried = to_carry(plain, self.recorded, places, self.episode)
        more = {"filled": self.filled, "blobs": texts(carried, data, self.library.fetch)}
        return carried | {name: value for name, value in more.items() if value}

    def _event(self, place: int, recorded: Recorded) -> None:
        payload = recorded.payload
        if isinstance(payload, MessageRecorded):
            self._message(place, payload, recorded.occurred_at)
        elif isinstance(payload, ModelResponded):
            self._turn(place, payload, recorded.occurred_at)
        elif isinstance(payload, ActionSubmitted):
            self._action(place, payload, recorded)
        elif isinstance(payload, FeedbackRecorded):
            self._feedback(place, payload)

    def _message(self, place: int, said: MessageRecorded, at: int | None) -> None:
        content = atif_content.message(said.content, said.extra, self.library)
        source = {"user": "user", "assistant": "agent"}.get(said.role, "system")
        step = _Step(source, content, place, said.step)
        if at is not None:
            step.object["timestamp"] = to_text(at)
        if source == "agent":
            step.object["llm_call_count"] = 0
            step.takes_calls = content not in ("", []) and bytes(said.content) != b'""'
        self.steps.append(step)

    def _turn(self, place: int, turn: ModelResponded, at: int | None) -> None:
        step = _Step("agent", self._said(turn), place, turn.step)
        step.takes_calls = True
        step.object |= object_of(
            (
                ("timestamp", None if at is None else to_text(at)),
                ("model_name", turn.model),
                ("reasoning_content", turn.thought if isinstance(turn.thought, str) else None),
                ("metrics", metrics_of(turn)),
                ("is_copied_context", turn.copied or None),
            )
        )
        self.steps.append(step)

    def _said(self, turn: ModelResponded) -> Any:
        """A turn's message: the parts that it was imported with, else its text."""
        parts = extra_of(turn).get("message") if self.native else None
        if isinstance(parts, list):
            return atif_content.message(Raw(msgspec.json.encode(parts)), turn.extra, self.library)
        return turn.content if isinstance(turn.content, str) else ""

    def _action(self, place: int, submitted: ActionSubmitted, recorded: Recorded) -> None:
        step = next((step for step in reversed(self.steps) if step.takes_calls), None)
        if step is None or step.number != submitted.step:
            fitting = [s for s in reversed(self.steps) if s.takes_calls and s.number == submitted.step]
            step = fitting[0] if fitting else self._dispatch(submitted.step)
        call = call_of(submitted.action, recorded)
        name = self.calls.submit(place + 1, submitted.action, step, {made["tool_call_id"] for _, made in step.calls})
        made = {"tool_call_id": name, "function_name": call.tool or "unnamed", "arguments": call.as_object}
        step.calls.append((place, made))

    def _dispatch(self, number: int) -> _Step:
        """A step for an action that no model turn is recorded for."""
        step = _Step("agent", "", None, number)
        step.object["llm_call_count"] = 0
        step.takes_calls = True
        self.steps.append(step)
        return step

    def _feedback(self, place: int, answer: FeedbackRecorded) -> None:
        found = self.calls.answered(answer)
        result: Json = {}
        if found is not None:
            step, result["source_call_id"] = found
        else:
            step = self.steps[-1] if self.steps else self._before_all()
        content = atif_content.observation(answer.feedback, answer.extra, self.library)
        if content is not None:
            result["content"] = content
        if isinstance(answer.feedback, SubagentResult):
            result["subagent_trajectory_ref"] = [self._ref(answer.feedback.child_episode)]
        step.results.append((place, result))

    def _before_all(self) -> _Step:
        """A step for what came before any message or model turn."""
        step = _Step("system", "", None, None)
        self.steps.append(step)
        return step

    def _ref(self, child: str) -> Json:
        made = self.children.get(child)
        if made is None:
            return {"trajectory_path": f"{child}.json"}
        return {"trajectory_id": made.document["trajectory_id"]}

    def _root(self) -> Json:
        started, first = self.started, self.recorded[0]
        own = extra_of(started) if self.native else {}
        name, version = next(iter(started.versions.items()), (None, None))
        if name is None:
            name, version = (started.origin.format if started.origin else "trajlog"), "unknown"
            self.filled.append("agent")
        root: Json = {"schema_version": SCHEMA}
        if first.conversation is not None:
            root["session_id"] = first.conversation
        if not isinstance(own.get("trajectory_id"), str):
            root["trajectory_id"] = self.episode
            self.filled.append("trajectory_id")
        else:
            root["trajectory_id"] = own["trajectory_id"]
        tools = None if started.tools is None else [definition_of(tool) for tool in started.tools]
        root["agent"] = object_of(
            (
                ("name", name),
                ("version", version),
                ("model_name", started.policy),
                ("tool_definitions", tools),
            )
        )
        root["steps"] = [step.written(index) for index, step in enumerate(self.steps, 1)]
        if not self.native:
            root["final_metrics"] = self._totals()
            self.filled.append("final_metrics")
        if self.children:
            root["subagent_trajectories"] = [made.document for made in self.children.values()]
        return root

    def _totals(self) -> Json:
        """What the model turns of the episode itself took."""
        turns = [recorded.payload for recorded in self.recorded if isinstance(recorded.payload, ModelResponded)]
        own = [turn for turn in turns if not turn.copied]
        used = [turn.usage for turn in own if turn.usage is not None]
        return object_of(
            (
                ("total_prompt_tokens", _sum([usage.prompt_tokens for usage in used])),
                ("total_completion_tokens", _sum([usage.completion_tokens for usage in used])),
                ("total_cached_tokens", _sum([usage.cached_tokens for usage in used])),
                ("total_cost_usd", _sum([turn.cost for turn in own])),
                ("total_steps", len(self.steps)),
            )
        )

    def _put_back(self, step: _Step, made: Json) -> None:
        if step.place is not None:
            put_back(made, extra_of(self.recorded[step.place].payload), "step")
        for place, result in step.results:
            put_back(result, extra_of(self.recorded[place].payload), "result")


def _bare(document: Json) -> None:
    """Leave out what is ours."""
    document["extra"].pop(NAME)
    if not document["extra"]:
        del document["extra"]


def _breaks_a_rule(document: Json) -> bool:
    found = lint(msgspec.json.decode(encode(document)))
    return any(finding.severity == "error" for finding in found)


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None and number >= 0]
    return sum(known) if known else None
