"""Inspect's messages as it writes most of them, read at once: a text, said by one, who may call tools."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw

from core.vocabulary.base import UNSET
from core.vocabulary.contract import ToolCall
from eventlog.interchange.mapping.messages import arguments_of, joined, shallow
from eventlog.interchange.mapping.turns import NULL, Said

_Name = Annotated[str, Meta(min_length=1)]
_NO_SOURCE = (NULL, Raw(b"[]"))
_FROM_SOURCE = ("message source: kept in extra",)


class _Call(msgspec.Struct, forbid_unknown_fields=True):
    function: _Name
    id: _Name | None = None
    arguments: Raw = NULL
    type: Raw = NULL


class _Message(msgspec.Struct, forbid_unknown_fields=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: Raw
    id: str | None = None
    source: Raw = NULL
    model: Raw = NULL
    tool_calls: list[_Call] | None = None
    tool_call_id: _Name | None = None
    function: Raw = NULL


_decode = msgspec.json.Decoder(_Message).decode


def plain_message(data: bytes) -> Said | None:
    """What a message says; None if it is not of that shape."""
    try:
        given = _decode(data)
    except (ValueError, RecursionError):
        return None
    text = shallow(given.content)
    if not isinstance(text, str) or (given.role == "tool") != (given.tool_call_id is not None):
        return None
    sourced = given.source not in _NO_SOURCE
    return Said(
        given.role,
        given.content,
        text=text,
        calls=tuple([_call(call) for call in given.tool_calls]) if given.tool_calls else (),
        call_id=given.tool_call_id,
        extra=joined({"source": given.source}) if sourced else UNSET,
        id=given.id,
        unmapped=_FROM_SOURCE if sourced else (),
    )


def _call(call: _Call) -> ToolCall:
    args, text = arguments_of(call.arguments)
    return ToolCall(tool=call.function, args=args, call_id=call.id, args_text=text)
