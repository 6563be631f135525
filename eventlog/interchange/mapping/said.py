"""Chat messages in the dialects that traces quote: OpenAI's `content` and `tool_calls`, the `parts` of
OpenTelemetry, Anthropic's `tool_use` and `tool_result`. Each becomes a `Said`; nothing here fails on
what it does not know: such a part, field or value is kept as it is.
"""

from typing import Annotated

import msgspec
from msgspec import Raw

from core.vocabulary.base import UNSET
from core.vocabulary.contract import ToolCall
from core.vocabulary.episode import Role
from eventlog.interchange.mapping.messages import arguments_of, joined, shallow
from eventlog.interchange.mapping.turns import NULL, Said

_encode = msgspec.json.encode
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "tool": "tool",
    "function": "tool",
}
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_TEXT = frozenset({"text", "input_text", "output_text"})
_CALL = frozenset(
    {"id", "call_id", "toolCallId", "type", "index", "function", "name", "toolName", "arguments", "input", "args"}
)
_THOUGHT = frozenset({"reasoning", "thinking"})


_NOTHING = (NULL, Raw(b'""'), Raw(b"[]"))
_EMPTY = (NULL, Raw(b"[]"))
_MESSAGE = Raw(b'"message"')


class _Function(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: Raw = NULL


class _Usual(msgspec.Struct, forbid_unknown_fields=True):
    """A call as OpenAI has it, and nothing else."""

    function: _Function
    id: str | None = None
    type: Raw = NULL
    index: Raw = NULL


_usual = msgspec.json.Decoder(list[_Usual]).decode

Known = dict[bytes, list[Said]]
"""Messages that were read before: prompts repeat them."""


def messages(raw: Raw | None, known: Known | None = None) -> list[Said]:
    """A prompt: a list of messages, an object that holds one as `messages`, one message, or a text of
    the user's. Anything else is what the user said, as it is."""
    if raw is None:
        return []
    given = shallow(raw)
    if isinstance(given, dict):
        if "messages" in given and _list(given["messages"]) is not None:
            return messages(given["messages"], known)
        return message(given, "user") if _speaks(given) else [Said("user", raw)]
    if not isinstance(given, list):
        return [] if raw in _NOTHING else [Said("user", raw)]
    known = {} if known is None else known
    made: list[Said] = []
    for item in given:
        key = bytes(item)
        said = known.get(key)
        if said is None:
            fields = _object(item)
            if fields is None or not _speaks(fields):
                return [Said("user", raw)]
            said = known[key] = message(fields, "user")
        made += said
    return made


def answers(raw: Raw | None) -> list[Said]:
    """What a model answered: as `messages`, but of the assistant's; choices as they come."""
    if raw is None:
        return []
    given = shallow(raw)
    if isinstance(given, list):
        found = [said for item in given for said in answers(item)]
        return found if all(said.role == "assistant" for said in found) else [_plain(raw, given)]
    if not isinstance(given, dict):
        return [] if raw in _NOTHING else [_plain(raw, given)]
    if "choices" in given and (choices := _list(given["choices"])):
        return [said for choice in choices for said in answers(choice)]
    if "message" in given and "role" not in given and (inner := _object(given["message"])) is not None:
        return message(inner | {k: v for k, v in given.items() if k == "finish_reason"}, "assistant")
    return message(given, "assistant") if _speaks(given) else [_plain(raw, given)]


def message(fields: dict[str, Raw], role: Role) -> list[Said]:
    """One message; several where it holds the answers of several tools. `role` if it names none."""
    left = dict(fields)
    named = _pop(left, "role") or ""
    speaker = _ROLES.get(named.lower())
    if speaker is None:
        speaker = role
        if named:
            left["role"] = fields["role"]
    content = left.pop("parts", None) or left.pop("content", None) or NULL
    given = shallow(content)
    if not left and isinstance(given, str):
        return [Said(speaker, content, text=given)]
    parts = _Parts(content, given)
    calls = (*parts.calls, *_calls(left)) if "tool_calls" in left else tuple(parts.calls)
    name = _pop(left, "name")
    call_id = finish = None
    if speaker == "tool":
        call_id = _pop(left, "tool_call_id") or _pop(left, "id")
    elif speaker == "assistant":
        finish = _pop(left, "finish_reason")
    thought = parts.thought or None
    for key in _THOUGHTS:
        if key in left and not thought:
            thought = _pop(left, key) or None
    if "type" in left and left["type"] == _MESSAGE:
        del left["type"]
    made = [Said("tool", answer, call_id=answered) for answered, answer in parts.answers]
    if made and not parts.rest and not calls and parts.text is None:
        return made
    extra = {key: value for key, value in left.items() if value not in _EMPTY} if left else {}
    unmapped = [f"message {key}: kept in extra" for key in extra] if extra else []
    if speaker == "assistant" and parts.rest:
        extra["parts"] = Raw(_encode(parts.rest))
        unmapped += [f"message part {kind}: kept in extra" for kind in parts.kinds]
    made.append(
        Said(
            speaker,
            parts.content,
            text=parts.text,
            thought=thought,
            calls=calls,
            call_id=call_id,
            name=name,
            extra=joined(extra) if extra else UNSET,
            finish=finish,
            unmapped=tuple(unmapped),
        )
    )
    return made


def _pop(left: dict[str, Raw], name: str) -> str | None:
    """A text field, taken out; None if it is absent or no text, which leaves it."""
    raw = left.get(name)
    text = None if raw is None else _text(raw)
    if text is not None:
        del left[name]
    return text


class _Parts:
    """The content of a message, sorted: text, thought, calls, tools' answers, and the rest."""

    def __init__(self, content: Raw, given: str | dict[str, Raw] | list[Raw] | None) -> None:
        self.content = content
        self.text = given if isinstance(given, str) else None
        self.thought: str | None = None
        self.calls: list[ToolCall] = []
        self.answers: list[tuple[str | None, Raw]] = []
        self.rest: list[Raw] = []
        self.kinds: list[str] = []
        if isinstance(given, list):
            self._sort_all(given)
        elif self.text is None and content != NULL:
            self.rest, self.kinds = [content], ["that is no list"]

    def _sort_all(self, items: list[Raw]) -> None:
        texts: list[str] = []
        thoughts: list[str] = []
        for item in items:
            self._sort(item, texts, thoughts)
        self.text = "\n".join(texts) if texts else None
        self.thought = "\n".join(thoughts) if thoughts else None
        only = _object(items[0]) if len(items) == 1 else None
        if only is not None and texts and len(only) == 2:
            self.content = Raw(_encode(texts[0]))

    def _sort(self, item: Raw, texts: list[str], thoughts: list[str]) -> None:
        part = shallow(item)
        if isinstance(part, str):
            texts.append(part)
            return
        if not isinstance(part, dict):
            self._keep(item, "that is no object")
            return
        kind = _text(part.get("type", NULL)) or ""
        said = None
        if kind in _TEXT or kind in _THOUGHT:
            raw = part.get("text") or part.get("content") or part.get(kind)
            said = None if raw is None else _text(raw)
        if kind in _TEXT and said is not None:
            texts.append(said)
        elif kind in _THOUGHT and said is not None:
            thoughts.append(said)
        elif kind == "tool_call" or (kind in ("tool_use", "tool-call") and "arguments" not in part):
            inner = _object(part.get("function", NULL))
            call = _call(part, inner)
            if call is not None:
                self.calls.append(call)
            if call is None or _says_more(part, inner):
                self._keep(item, kind)
        elif kind in ("tool_call_response", "tool_result"):
            answer = next((part[key] for key in ("response", "result", "content") if key in part), NULL)
            self.answers.append((_text(part.get("id", NULL)) or _text(part.get("tool_use_id", NULL)), answer))
        else:
            self._keep(item, kind or "without a type")

    def _keep(self, item: Raw, kind: str) -> None:
        self.rest.append(item)
        self.kinds.append(kind)


def _calls(left: dict[str, Raw]) -> list[ToolCall]:
    """The calls in `tool_calls`, if all of them can be read; taken out if they say nothing besides."""
    try:
        found = [_made(each) for each in _usual(left["tool_calls"])]
    except msgspec.ValidationError:
        return _unusual_calls(left)
    if found:
        del left["tool_calls"]
    return found


def _unusual_calls(left: dict[str, Raw]) -> list[ToolCall]:
    """The same, of any shape."""
    items = _list(left["tool_calls"])
    if not items:
        return []
    calls: list[ToolCall] = []
    more = False
    for item in items:
        fields = _object(item) or {}
        inner = _object(fields.get("function", NULL))
        call = _call(fields, inner)
        if call is None:
            return []
        calls.append(call)
        more = more or _says_more(fields, inner)
    if not more:
        del left["tool_calls"]
    return calls


def _made(call: _Usual) -> ToolCall:
    args, text = arguments_of(call.function.arguments)
    return ToolCall(tool=call.function.name, args=args, call_id=call.id or None, args_text=text)


def call_of(fields: dict[str, Raw]) -> ToolCall | None:
    """A tool call, in any of the dialects; None if it names no tool."""
    return _call(fields, _object(fields.get("function", NULL)))


def _call(fields: dict[str, Raw], inner: dict[str, Raw] | None) -> ToolCall | None:
    """The same, where its `function` is read already: None if that is no object."""
    function = inner or fields
    name = _first(function, ("name", "toolName", "function"))
    if name is None:
        return None
    args, text = arguments_of(next((function[k] for k in ("arguments", "input", "args") if k in function), None))
    return ToolCall(tool=name, args=args, call_id=_first(fields, ("id", "call_id", "toolCallId")), args_text=text)


def _first(fields: dict[str, Raw], names: tuple[str, ...]) -> str | None:
    """The first of these fields that is a text, and not empty."""
    for name in names:
        if name in fields and (text := _text(fields[name])):
            return text
    return None


def _says_more(fields: dict[str, Raw], inner: dict[str, Raw] | None) -> bool:
    """Whether a call, or its `function`, has fields that no action has."""
    given = [*fields.items(), *inner.items()] if inner else fields.items()
    return any(key not in _CALL and value != NULL for key, value in given)


def _plain(raw: Raw, given: object) -> Said:
    """An answer that is no message: a text, or JSON as its text."""
    return Said("assistant", raw, text=given if isinstance(given, str) else bytes(raw).decode())


def _speaks(fields: dict[str, Raw]) -> bool:
    return "role" in fields or "parts" in fields or ("content" in fields and len(fields) <= 3)


def _object(raw: Raw) -> dict[str, Raw] | None:
    given = shallow(raw)
    return given if isinstance(given, dict) else None


def _list(raw: Raw) -> list[Raw] | None:
    given = shallow(raw)
    return given if isinstance(given, list) else None


def _text(raw: Raw) -> str | None:
    given = shallow(raw)
    return given if isinstance(given, str) else None
