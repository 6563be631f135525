"""Chat messages in the dialects that traces quote: OpenAI's `content` and `tool_calls`, the `parts` of
OpenTelemetry, Anthropic's `tool_use` and `tool_result`. Each becomes a `Said`; nothing here fails on
what it does not know: such a part, field or value is kept as it is.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from core.vocabulary.base import UNSET
from core.vocabulary.contract import ToolCall
from core.vocabulary.episode import Role
from eventlog.interchange.mapping.messages import arguments_of, joined
from eventlog.interchange.mapping.turns import NULL, Said

_encode = msgspec.json.encode
_read_object = msgspec.json.Decoder(dict[str, Raw]).decode
_read_list = msgspec.json.Decoder(list[Raw]).decode
_read_text = msgspec.json.Decoder(str).decode
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


Known = dict[bytes, tuple[Said, ...]]
"""Messages that were read before: prompts repeat them."""


def messages(raw: Raw | None, known: Known | None = None) -> list[Said]:
    """A prompt: a list of messages, an object that holds one as `messages`, one message, or a text of
    the user's. Anything else is what the user said, as it is."""
    if raw is None or bytes(raw) in (b"null", b'""', b"[]"):
        return []
    items = _list(raw)
    if items is None:
        fields = _object(raw)
        if fields is not None and "messages" in fields and _list(fields["messages"]) is not None:
            return messages(fields["messages"], known)
        return list(message(fields, "user")) if fields is not None and _speaks(fields) else [Said("user", raw)]
    known = {} if known is None else known
    made: list[Said] = []
    for item in items:
        key = bytes(item)
        if key not in known:
            fields = _object(item)
            if fields is None or not _speaks(fields):
                return [Said("user", raw)]
            known[key] = tuple(message(fields, "user"))
        made += known[key]
    return made


def answers(raw: Raw | None) -> list[Said]:
    """What a model answered: as `messages`, but of the assistant's; choices as they come."""
    if raw is None or bytes(raw) in (b"null", b'""', b"[]"):
        return []
    items = _list(raw)
    if items is not None:
        found = [said for item in items for said in answers(item)]
        return found if all(said.role == "assistant" for said in found) else [_plain(raw)]
    fields = _object(raw)
    if fields is None:
        return [_plain(raw)]
    if "choices" in fields and _list(fields["choices"]):
        return [said for choice in _list(fields["choices"]) or [] for said in answers(choice)]
    if "message" in fields and "role" not in fields and _object(fields["message"]) is not None:
        inner = _object(fields["message"]) or {}
        return list(message(inner | {k: v for k, v in fields.items() if k == "finish_reason"}, "assistant"))
    if not _speaks(fields):
        return [_plain(raw)]
    return list(message(fields, "assistant"))


def message(fields: dict[str, Raw], role: Role) -> Iterator[Said]:
    """One message; several where it holds the answers of several tools. `role` if it names none."""
    left = dict(fields)
    named = _pop(left, "role") or ""
    speaker = _ROLES.get(named.lower(), role)
    if named and named.lower() not in _ROLES:
        left["role"] = fields["role"]
    content = left.pop("parts", None) or left.pop("content", None) or NULL
    parts = _Parts(content)
    calls = [*parts.calls, *(_calls(left) if "tool_calls" in left else ())]
    name = _pop(left, "name")
    call_id = finish = None
    if speaker == "tool":
        call_id = _pop(left, "tool_call_id") or _pop(left, "id")
    elif speaker == "assistant":
        finish = _pop(left, "finish_reason")
    thought = parts.thought
    for key in _THOUGHTS:
        thought = thought or _pop(left, key) or None
    if "type" in left and bytes(left["type"]) == b'"message"':
        del left["type"]
    for answered, answer in parts.answers:
        yield Said("tool", answer, call_id=answered)
    if parts.answers and not parts.rest and not calls and parts.text is None:
        return
    extra = {key: value for key, value in left.items() if bytes(value) not in (b"null", b"[]")}
    unmapped = [f"message {key}: kept in extra" for key in extra]
    if speaker == "assistant" and parts.rest:
        extra["parts"] = Raw(_encode(parts.rest))
        unmapped += [f"message part {kind}: kept in extra" for kind in parts.kinds]
    yield Said(
        speaker,
        parts.content,
        text=parts.text,
        thought=thought,
        calls=tuple(calls),
        call_id=call_id,
        name=name,
        extra=joined(extra) if extra else UNSET,
        finish=finish,
        unmapped=tuple(unmapped),
    )


def _pop(left: dict[str, Raw], name: str) -> str | None:
    """A text field, taken out; None if it is absent or no text, which leaves it."""
    raw = left.get(name)
    text = None if raw is None else _text(raw)
    if text is not None:
        del left[name]
    return text


class _Parts:
    """The content of a message, sorted: text, thought, calls, tools' answers, and the rest."""

    def __init__(self, content: Raw) -> None:
        self.content = content
        self.text: str | None = _text(content)
        self.thought: str | None = None
        self.calls: list[ToolCall] = []
        self.answers: list[tuple[str | None, Raw]] = []
        self.rest: list[Raw] = []
        self.kinds: list[str] = []
        items = _list(content)
        if items is None:
            if self.text is None and bytes(content) != b"null":
                self.rest, self.kinds = [content], ["that is no list"]
            return
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
        part = _object(item)
        if part is None:
            text = _text(item)
            if text is not None:
                texts.append(text)
            else:
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
            call = call_of(part)
            if call is not None:
                self.calls.append(call)
            if call is None or _says_more(part):
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
    items = _list(left.get("tool_calls", NULL))
    if not items:
        return []
    given = [_object(item) or {} for item in items]
    calls = [call for fields in given if (call := call_of(fields)) is not None]
    if len(calls) < len(items):
        return []
    if not any(map(_says_more, given)):
        del left["tool_calls"]
    return calls


def call_of(fields: dict[str, Raw]) -> ToolCall | None:
    """A tool call, in any of the dialects; None if it names no tool."""
    function = _object(fields.get("function", NULL)) or fields
    name = next((t for k in ("name", "toolName", "function") if (t := _text(function.get(k, NULL)))), None)
    if name is None:
        return None
    args, text = arguments_of(next((function[k] for k in ("arguments", "input", "args") if k in function), None))
    call_id = next((t for k in ("id", "call_id", "toolCallId") if (t := _text(fields.get(k, NULL)))), None)
    return ToolCall(tool=name, args=args, call_id=call_id, args_text=text)


def _says_more(fields: dict[str, Raw]) -> bool:
    """Whether a call has fields that no action has."""
    inner = _object(fields.get("function", NULL)) or {}
    given = {key for part in (fields, inner) for key, value in part.items() if bytes(value) != b"null"}
    return not given <= _CALL


def _plain(raw: Raw) -> Said:
    """An answer that is no message: a text, or JSON as its text."""
    text = _text(raw)
    return Said("assistant", raw, text=bytes(raw).decode() if text is None else text)


def _speaks(fields: dict[str, Raw]) -> bool:
    return "role" in fields or "parts" in fields or ("content" in fields and len(fields) <= 3)


def _object(raw: Raw) -> dict[str, Raw] | None:
    return _read_object(raw) if bytes(raw).startswith(b"{") else None


def _list(raw: Raw) -> list[Raw] | None:
    return _read_list(raw) if bytes(raw).startswith(b"[") else None


def _text(raw: Raw) -> str | None:
    return _read_text(raw) if bytes(raw).startswith(b'"') else None
