"""A cut: the log as of a position, named by a tag, a position or a time.

A time means what was committed by then. It resolves to the end of a segment, and to the same one ever
after: where a commit under way may still get a stamp before it, resolving waits for that commit.
"""

import re

import msgspec

from eventlog.log import Log
from eventlog.versions.commits import Offsets, beyond, commits

_POSITION = re.compile(r"[0-9]+", re.ASCII)


class Cut(msgspec.Struct, frozen=True):
    """The first `position` events of a log. `seal` is of the last segment that ends at or before it, None
    where none does; `offsets` are those its source partitions had been taken to."""

    log_id: bytes
    position: int
    root: bytes
    seal: bytes | None
    offsets: Offsets = {}


def resolve(log: Log, text: str) -> Cut:
    """The cut that `text` names: a TAG, a POSITION, or a TIME (RFC 3339, a date, or a span like `7d` ago).

    `NotFound` for an unknown tag, a position beyond the head, a time before the first event;
    `UsageError` for a time in the future; `Corrupt` where the log is not what the tag names any more.
    """
    return cut_at(log, locate(log, text))


def locate(log: Log, text: str) -> int:
    """The position of the cut that `text` names, as `resolve`, without the cost of its root."""
    found = commits(log)
    if _POSITION.fullmatch(text):
        head = found.head().position
        if len(text) > 19 or int(text) > head:
            raise beyond(text[:40], head)
        return int(text)
    if text[:1].isalpha():
        return found.tagged(text)
    return found.by(text)


def cut_at(log: Log, position: int) -> Cut:
    """The cut at a position. `NotFound` beyond the head."""
    found = commits(log)
    head = found.head().position
    if not 0 <= position <= head:
        raise beyond(str(position), head)
    return Cut(log.log_id, position, log.root(position), found.seal(position), found.offsets(position))
