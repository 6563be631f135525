"""Fields of Inspect's samples and events, and the attachments that their texts may stand for."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import Raw

from core.errors import BadRecord
from core.vocabulary.base import UNSET
from core.vocabulary.episode import ToolSpec, Usage
from eventlog.interchange.mapping.lenient import soft
from eventlog.interchange.mapping.messages import Fields, shallow
from eventlog.interchange.mapping.turns import NULL, text_of

NOTHING = Fields({}, "")
"""What an object's fields are where there is no object."""

MAX_PUT_IN = 256 << 20
"""Bytes that a sample's attachments may come to where they are used: each may be used many times."""

_object = msgspec.json.Decoder(dict[str, Raw]).decode
_list = msgspec.json.Decoder(list[Raw]).decode
_number = msgspec.json.Decoder(float | None).decode
_EMPTY = (NULL, Raw(b"{}"), Raw(b"[]"), Raw(b'""'))
_USER = Raw(b'"user"')
_SLASH = ord("/")
_REFERENCES = ("attachment://", "tc://")
_SIGNS = tuple(reference.encode() for reference in _REFERENCES)


class _Usage(msgspec.Struct, forbid_unknown_fields=True):
    """What a model call used, as Inspect counts it."""

    input_tokens_cache_read: int | None = None
    input_tokens_cache_write: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    total_cost: float | None = None
    total_tokens: Raw = NULL


_COUNTS = _Usage.__struct_fields__[:5]


class Attachments:
    """Long texts that a sample holds once, and names wherever they belong."""

    def __init__(self, texts: dict[str, str], where: str, unmapped: Counter[str]) -> None:
        self._texts = texts
        self._where = where
        self._unmapped = unmapped
        self._size = 0

    def put_in(self, value: Raw) -> Raw:
        """JSON with the texts it names in their place. `BadRecord` if that is far too much."""
        text = bytes(value)
        put = self.put_in_text(text)
        return value if put is text else Raw(put)

    def put_in_text(self, text: bytes) -> bytes:
        """The same, of the JSON's own text."""
        if _SLASH not in text or b"://" not in text or not any(sign in text for sign in _SIGNS):
            return text
        return msgspec.json.encode(self._put_in(msgspec.json.decode(text)))

    def _put_in(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith(_REFERENCES):
            return self._text(value)
        if isinstance(value, list):
            return [self._put_in(item) for item in value]
        return {name: self._put_in(item) for name, item in value.items()} if isinstance(value, dict) else value

    def _text(self, address: str) -> str:
        text = self._texts.get(address.partition("://")[2])
        if text is None:
            self._unmapped["attachment that is not there: its address kept"] += 1
            return address
        self._size += len(text)
        if self._size > MAX_PUT_IN:
            raise BadRecord(f"its attachments come to more than {MAX_PUT_IN >> 20} MB", where=self._where)
        return text


def inner(fields: Fields, name: str) -> Fields:
    """The object in a field, `NOTHING` if it is absent. What is left in it is left here."""
    return fields.inner(name) if name in fields else NOTHING


def specs_of(event: Fields) -> list[ToolSpec]:
    """The tools that a model call was shown."""
    specs = []
    for spec in event.peek("tools", list[dict[str, Raw]]) or []:
        fields = Fields(spec, event.where, "events[].model.tools[]")
        name, about, parameters = fields.take("name", str), fields.take("description", str), fields.raw("parameters")
        if name is not None:
            specs.append(ToolSpec(name, about, UNSET if parameters is None else parameters))
    return specs


def is_empty(value: Raw) -> bool:
    return value in _EMPTY


def is_within(span: str | None, spans: dict[str, tuple[str | None, str | None]], kinds: tuple[str, ...]) -> bool:
    """Whether a span, or one around it, is of one of these kinds."""
    seen = set()
    while span is not None and span in spans and span not in seen:
        seen.add(span)
        span, kind = spans[span]
        if kind in kinds:
            return True
    return False


def usage_of(output: Fields) -> tuple[Usage | None, float | None]:
    """Tokens and cost. Inspect counts cached tokens beside the others, not among them."""
    usage: _Usage | None = soft(output, "usage", _Usage)
    if usage is None:
        fields = inner(output, "usage")
        if fields.verbatim is None:
            return None, None
        counts = {name: fields.take(name, int) for name in _COUNTS}
        usage = _Usage(**counts, total_cost=fields.take("total_cost", float))
        fields.raw("total_tokens")
    read, given = usage.input_tokens_cache_read, usage.input_tokens
    prompt = None if given is None else given + (read or 0) + (usage.input_tokens_cache_write or 0)
    return Usage(prompt, usage.output_tokens, usage.reasoning_tokens, read), usage.total_cost


def logprobs_of(logprobs: dict[str, Raw] | None) -> list[float | None] | None:
    """One log probability for each token sampled."""
    content = (logprobs or {}).get("content")
    if content is None:
        return None
    return [_number(_object(token).get("logprob", NULL)) for token in _list(content)]


def is_same(one: Raw, other: Raw) -> bool:
    return bool(msgspec.json.decode(one) == msgspec.json.decode(other))


def goal_of(given: Raw) -> str | None:
    """What the user wants: the sample's input, or the last thing the user says in it."""
    held = shallow(given)
    if isinstance(held, str):
        return held
    said = [_object(each) for each in held] if isinstance(held, list) else []
    asked = [fields for fields in said if fields.get("role") == _USER]
    return text_of(asked[-1].get("content", NULL)) if asked else None


def sandbox_of(value: Raw | None) -> str | None:
    """The kind of sandbox, which older logs write as `[type, config]`."""
    named = None if value is None else msgspec.json.decode(value)
    kind = named.get("type") if isinstance(named, dict) else named[0] if isinstance(named, list) and named else named
    return kind if isinstance(kind, str) else None


def note_of(invalidation: Fields) -> str | None:
    """What a person said who invalidated the sample."""
    if invalidation.verbatim is None:
        return None
    by, why = invalidation.take("author", str), invalidation.take("reason", str)
    return f"invalidated{f' by {by}' if by else ''}{f': {why}' if why else ''}"
