"""The events that rows refer to, read and decoded many at a time.

What cannot be taken as it stands is looked at alone, and only if a row needs it: events that refer to blobs,
that are sealed, of another schema, or that are none.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from core import vocabulary
from core.event import Event
from core.vocabulary import Payload, Unknown
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded, MessageRecorded, ModelResponded
from eventlog.interchange.whole import whole

if TYPE_CHECKING:
    from eventlog.database import Connection

_QUERY = """
SELECT stream, type, schema, owner IS NOT NULL, array_agg(version), array_agg(octet_length(body)),
       string_agg(body, ','::bytea)
FROM trajlog.event WHERE stream = ANY(%s) AND type = ANY(%s)
GROUP BY stream, type, schema, owner IS NOT NULL, version / 256
"""
"""As many bodies together as one value can hold."""

_BLOB = b'"address"'
_STRUCTS: Final = (EpisodeStarted, MessageRecorded, ModelResponded, ActionSubmitted, FeedbackRecorded)
_TYPES: Final = [struct.__name__ for struct in _STRUCTS]
_CURRENT: Final[dict[tuple[str, int], Callable[[bytes], Sequence[Payload]]]] = {
    (struct.__name__, struct.schema_number): msgspec.json.Decoder(list[struct]).decode  # type: ignore[valid-type]
    for struct in _STRUCTS
}
_FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)


class Alone(NamedTuple):
    """An event to be looked at alone."""

    type: str
    schema: int
    sealed: bool
    body: bytes

    @property
    def plain(self) -> bool:
        """Whether it is told by its body, without blobs and keys."""
        return not self.sealed and _BLOB not in self.body

    def payload(self, fetch: Callable[[str], bytes | None]) -> Payload | Unknown:
        """What it says, its large texts in place as far as `fetch` has them."""
        read = vocabulary.payload(
            Event(
                event_id=b"", stream="", writer="", run=b"", seq=1, type=self.type, schema=self.schema, body=self.body
            )
        )
        return read if self.plain or isinstance(read, Unknown) else whole(read, fetch)


Events = dict[int, Payload | Alone]
"""The events of a stream that make up its conversation, by version."""


def read(connection: "Connection", streams: Sequence[str]) -> dict[str, Events]:
    """The events of each of these streams."""
    found: dict[str, Events] = {stream: {} for stream in streams}
    with connection.cursor(binary=True) as cursor:
        cursor.execute(_QUERY, (list(found), _TYPES))
        for stream, type_, schema, sealed, versions, lengths, bodies in cursor.fetchall():
            found[stream].update(zip(versions, _payloads(type_, schema, sealed, lengths, bodies), strict=True))
    return found


def _payloads(
    type_: str, schema: int, sealed: bool, lengths: Sequence[int], bodies: bytes
) -> Sequence[Payload | Alone]:
    decode = _CURRENT.get((type_, schema))
    if decode is not None and not sealed and _BLOB not in bodies:
        try:
            payloads = decode(b"[%b]" % bodies)
        except _FAULTS:
            payloads = ()
        if len(payloads) == len(lengths):
            return payloads
    return [Alone(type_, schema, sealed, body) for body in _apart(lengths, bodies)]


def _apart(lengths: Sequence[int], bodies: bytes) -> Iterator[bytes]:
    """The bodies, one by one."""
    for start, end in pairwise(accumulate((length + 1 for length in lengths), initial=0)):
        yield bodies[start : end - 1]
