"""Files that are bare lists of messages: each list is one record, not each message."""

import re
from collections.abc import Iterator

import msgspec

from eventlog.interchange.records import Layout, Record, Rejected, explain, pieces
from eventlog.interchange.sources import Source
from eventlog.interchange.split import MAX_RECORD, Reader

_STRING = rb'"(?:[^"\\]|\\.)*+"'
_KEY = rb'"(?:role|type)"'
_FIELD = rb"(?!" + _KEY + rb")" + _STRING + rb"\s*:\s*(?:" + _STRING + rb"|null)\s*,\s*"
_BEGINNING = re.compile(rb"\s*\[\s*\{\s*(?:" + _FIELD + rb")*+" + _KEY, re.DOTALL)


def begins_one(head: bytes) -> bool:
    """Whether a file that begins so is a list of messages, not one of trajectories."""
    return _BEGINNING.match(head) is not None


def message_lists(source: Source, reader: Reader) -> Iterator[Record | Rejected]:
    """The lists in a file, one or several one after another; `value` is `{"messages": the list}`."""
    for where, piece in pieces(source, reader, Layout.DOCUMENTS):
        end = piece.offset + len(piece.data or b"")
        if piece.data is None:
            yield Rejected(where, f"larger than {MAX_RECORD >> 20} MB (at byte {piece.offset})", end)
            continue
        try:
            value = msgspec.json.decode(piece.data)
        except (ValueError, RecursionError) as error:
            yield Rejected(where, explain(piece, error), end)
            continue
        if isinstance(value, list):
            yield Record(where, piece.data, {"messages": value}, end)
        else:
            yield Rejected(where, f"no list of messages (at byte {piece.offset})", end)
