"""The steps of a SWE-agent run, put together from its history and its trajectory."""

import re
from collections import defaultdict
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.json import encode

from core.vocabulary.base import MaybeRaw
from core.vocabulary.contract import Effect, EnvNotice, ErrorClass, ExecError, Feedback, ToolResult
from core.vocabulary.episode import ActionSubmitted, FeedbackRecorded, MessageRecorded, ModelResponded, Role
from eventlog.interchange import Context, EpisodeDraft
from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.extras import extended, raw
from eventlog.interchange.mapping.messages import Fields, json_text, tool_call
from eventlog.interchange.swe import runs as swe

_ACTORS: dict[Role, str] = {"user": "user", "tool": "executor"}
_KINDS: dict[Role, str] = {
    "system": "system_prompt",
    "assistant": "action",
    "user": "observation",
    "tool": "observation",
}
"""The `message_type` that goes without saying for a role."""

_EMPTY, _NULL = Raw(b'""'), Raw(b"null")
_PROMPTS = ("query", "messages")
_EXIT = re.compile(r"Exit(?:ing)? due to ")
_ERRORS: tuple[tuple[str, re.Pattern[str], ErrorClass, Effect], ...] = (
    ("EXECUTION TIMED", re.compile(r"(?:^|\n)EXECUTION TIMED OUT[^\n]*\s*\Z"), "timeout", "unknown"),
    (
        " was cancelled",
        re.compile(r"\AThe command .* was cancelled because it took more than [\d.]+ s", re.DOTALL),
        "timeout",
        "unknown",
    ),
    ("RESTARTING", re.compile(r"(?:^|\n)[A-Z ]+\. RESTARTING PROCESS\.\s*\Z"), "transport_lost", "unknown"),
    ("Interactive", re.compile(r"\AInteractive operation '[^\n]*' is not supported"), "permission", "none"),
)
"""How SWE-agent words what it could not carry out: first a part that is quickly looked for."""


class Steps:
    """Goes through the history and adds events to the draft. `at` is the next message, `ran` the next
    entry of the trajectory; `unanswered` are the step's actions, as (version, call id)."""

    def __init__(self, draft: EpisodeDraft, context: Context, entries: list[Fields], history: list[Fields]) -> None:
        self.draft = draft
        self.keep = context.keep
        self.entries = entries
        self.history = history
        self.agent = history[0].peek("agent", str) if history else None
        self.step = self.at = self.ran = 0
        self.unanswered: list[tuple[int, str | None]] = []
        self.entries_of: dict[tuple[str, Any, Any], list[int]] = defaultdict(list)
        for index in reversed(range(len(entries))):
            for words in _words(entries[index], "response"):
                self.entries_of[words].append(index)

    def add(self) -> int:
        """Add everything; returns the number of the last step."""
        while self.at < len(self.history):
            message, role = self._message()
            if message.take("is_demo", bool):
                self._demonstrated(message, role)
            elif role == "assistant":
                self._turn(message, self._entry(message))
            elif self.unanswered and role in ("user", "tool"):
                self._shown(message)
            else:
                self._said(message, role)
        self._repeated(len(self.entries))
        return self.step

    def _message(self) -> tuple[Fields, Role]:
        message = self.history[self.at]
        self.at += 1
        role: Role | None = message.take("role", Role)
        if role is None:
            raise message.fault("role is missing")
        message.drop("message_type", _KINDS.get(role))
        message.drop("agent", self.agent)
        for name in ("tool_calls", "tool_call_ids", "thinking_blocks"):
            message.drop(name, None)
        return message, role

    def _entry(self, message: Fields) -> Fields | None:
        """The entry that the message led to. Those passed over were repeated: they are steps too."""
        for words in _words(message, "content"):
            indices = self.entries_of[words]
            while indices and indices[-1] < self.ran:
                indices.pop()
            if indices:
                self._repeated(indices[-1])
                self.ran += 1
                return self.entries[self.ran - 1]
        return None

    def _repeated(self, until: int) -> None:
        while self.ran < until:
            self.ran += 1
            self._turn(None, self.entries[self.ran - 1])

    def _said(self, message: Fields, role: Role) -> None:
        content = images.kept(message.raw("content") or _NULL, self.keep, message.fault)
        said = MessageRecorded(role, content, step=self.step or None, extra=self._rest(message))
        self.draft.add(said, actor=_ACTORS.get(role))

    def _demonstrated(self, message: Fields, role: Role) -> None:
        """Context from another run: no action is taken here, and nothing answers one."""
        if role == "assistant":
            self.step += 1
            text, parts = self._text(message, "content")
            extra = extended(self._rest(message), content=parts)
            self.draft.add(ModelResponded(self.step, content=text, copied=True, extra=extra), actor="planner")
        else:
            content = images.kept(message.raw("content") or _NULL, self.keep, message.fault)
            extra = extended(self._rest(message), is_demo=Raw(b"true"))
            self.draft.add(MessageRecorded(role, content, extra=extra), actor=_ACTORS.get(role))

    def _turn(self, message: Fields | None, entry: Fields | None) -> None:
        """One model turn: by the message that it is, the entry that it led to, or both."""
        spoken, ran = message or Fields({}, ""), entry or Fields({}, "")
        text, parts = self._text(spoken, "content") if message else self._text(ran, "response")
        ran.drop("response", text or "")
        action, thought = _once("action", ran, spoken), _once("thought", ran, spoken)
        self.unanswered = []
        exited = _EXIT.match(thought or text or "") and (action or "exit_").startswith("exit_")
        if exited and text in (None, "", thought):
            self._exited(thought or text, action, spoken, ran)
            return
        self.step += 1
        calls = [tool_call(call) for call in spoken.parts("tool_calls")]
        if not calls and action and action.strip() and not exited:
            calls, action = [swe.bash(action)], None
        seconds, state, observation = ran.take("execution_time", float), self._state(ran), ran.raw("observation")
        spare = {"action": _json(action), "state": None if calls else state}
        thought = _reasoning(spoken) or (thought if thought and thought.strip() not in (text or "") else None)
        seen = raw(extended(self._rest(spoken), content=parts))
        extra = extended(self._rest(ran), message=seen, **spare)
        self.draft.add(ModelResponded(self.step, content=text, thought=thought, extra=extra), actor="planner")
        for call in calls:
            version = self.draft.add(ActionSubmitted(self.step, call), actor="planner")
            self.unanswered.append((version, call.call_id))
        refused = message is None and self.history and observation == _EMPTY
        if observation is not None and not refused:
            self._came_back(observation, state if calls else None, seconds)

    def _came_back(self, observation: Raw, state: Raw | None, seconds: float | None) -> None:
        """The trajectory's observation, answering the step's first action."""
        version, call_id = self.unanswered.pop(0) if self.unanswered else (None, None)
        if version is None and observation in (_EMPTY, _NULL):
            return
        shown = self._as_shown(observation, call_id) if version else None
        ms = None if seconds is None else seconds * 1000
        extra = extended(state=state, message=shown)
        self._answered(observation, version, call_id, extra, ms)

    def _as_shown(self, observation: Raw, call_id: str | None) -> Raw | None:
        """The next message, if it is how the observation was put to the model; None if it adds nothing."""
        following = self.history[self.at] if self.at < len(self.history) else None
        if (
            following is None
            or following.peek("role", Any) not in ("user", "tool")
            or following.peek("is_demo", Any)
            or following.peek("message_type", Any) not in (None, "observation")
        ):
            return None
        message, role = self._message()
        message.drop("tool_call_ids", [call_id])
        content = images.kept(message.raw("content") or _NULL, self.keep, message.fault)
        same = msgspec.json.decode(content) == msgspec.json.decode(observation)
        rest = self._rest(message)
        return raw(rest) if same else raw(extended(rest, role=_json(role), content=content))

    def _shown(self, message: Fields) -> None:
        """A message that answers one of the step's actions, with no trajectory to say what came back."""
        ids = message.take("tool_call_ids", list[str]) or [message.take("tool_call_id", str)]
        which = next((i for i, (_, call_id) in enumerate(self.unanswered) if call_id in ids), 0)
        version, call_id = self.unanswered.pop(which)
        content = images.kept(message.raw("content") or _NULL, self.keep, message.fault)
        self._answered(content, version, call_id, self._rest(message))

    def _answered(
        self, content: Raw, version: int | None, call_id: str | None, extra: MaybeRaw, ms: float | None = None
    ) -> None:
        recorded = FeedbackRecorded(
            self.step, _feedback(content), call_id=call_id, action=version, latency_ms=ms, extra=extra
        )
        self.draft.add(recorded, actor="executor")

    def _exited(self, why: str | None, action: str | None, message: Fields, entry: Fields) -> None:
        """What the harness says in the model's place when it stops a run."""
        ran = {name: entry.raw(name) for name in ("observation", "state", "execution_time")}
        message.parts("tool_calls")
        extra = extended(self._rest(entry), action=_json(action), message=raw(self._rest(message)), **ran)
        self.draft.add(FeedbackRecorded(max(self.step, 1), EnvNotice("swe-agent", text=why), extra=extra))

    def _text(self, fields: Fields, name: str) -> tuple[str | None, Raw | None]:
        """A turn's text, and its parts if it is a list of them."""
        content = fields.raw(name) or _NULL
        value = msgspec.json.decode(content)
        parts = images.kept(content, self.keep, fields.fault) if isinstance(value, list) else None
        return swe.text_of(value, fields.fault), parts

    def _state(self, entry: Fields) -> Raw | None:
        """The state after the action, as an object where the source has it as a text."""
        state = entry.raw("state")
        if state is None:
            return None
        self.draft.unmapped["trajectory[].state: kept in extra"] += 1
        return (json_text(msgspec.json.decode(state)) or state) if bytes(state).startswith(b'"') else state

    def _rest(self, fields: Fields) -> MaybeRaw:
        """What could not be mapped: counted, and returned to be kept. Prompts are only counted."""
        for name in _PROMPTS:
            if fields.raw(name) is not None:
                self.draft.unmapped[f"trajectory[].{name}: in the record alone, a prompt that repeats the history"] += 1
        rest = fields.rest()
        if isinstance(rest, Raw):
            self.draft.left(fields.unmapped())
        return rest


def _words(fields: Fields, text: str) -> list[tuple[str, Any, Any]]:
    """What a message and the entry that it led to have in common."""
    spoken, thought, action = (fields.peek(name, Any) for name in (text, "thought", "action"))
    pairs = [("text", spoken, action), ("thought", thought, action)]
    return [words for words in pairs if isinstance(words[1], str) and isinstance(words[2], str | None)]


def _once(name: str, entry: Fields, message: Fields) -> str | None:
    """A text that both have; where they differ the message's own is left in it."""
    value: str | None = entry.take(name, str)
    if value is None:
        value = message.take(name, str)
    message.drop(name, value)
    return value


def _reasoning(message: Fields) -> str | None:
    """What the model thought apart from what it said."""
    blocks = message.peek("thinking_blocks", list[dict[str, Any]]) or []
    thoughts = [block["thinking"] for block in blocks if isinstance(block.get("thinking"), str)]
    reasoning: str | None = message.take("reasoning_content", str)
    return reasoning or "\n".join(thoughts) or None


def _feedback(content: Raw) -> Feedback:
    text = msgspec.json.decode(content)
    if isinstance(text, str):
        for part, pattern, kind, effect in _ERRORS:
            if part in text and pattern.search(text):
                return ExecError(kind, retryable=False, effect=effect, message=text)
    return ToolResult(content)


def _json(value: str | None) -> Raw | None:
    return None if value is None else Raw(encode(value))
