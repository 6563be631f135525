"""The events that rows refer to, read for many rows at a time and decoded many at a time.

What cannot be taken as it stands is looked at alone, and only if a row needs it: events that refer to blobs,
that are sealed, of another schema, or that are none.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
SELECT s.stream, e.* FROM unnest(%s::text[]) s (stream) CROSS JOIN LATERAL (
    SELECT type, schema, owner IS NOT NULL, array_agg(version), array_agg(octet_length(body)),
           string_agg(body, ','::bytea)
    FROM trajlog.event WHERE stream = s.stream AND type = ANY(%s)
    GROUP BY type, schema, owner IS NOT NULL, version / 256) e
"""
"""Stream by stream, as their index has them; as many bodies together as one value can hold."""

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


class Alike(NamedTuple):
    """Events of a stream that are of one kind: their bodies with a comma between, and how long each is."""

    type: str
    schema: int
    sealed: bool
    versions: Sequence[int]
    lengths: Sequence[int]
    bodies: bytes


Events = dict[int, Payload | Alone]
"""The events of a stream that make up its conversation, by version."""


def read(connection: "Connection", streams: Sequence[str]) -> dict[str, list[Alike]]:
    """The events of each of these streams."""
    found: dict[str, list[Alike]] = {stream: [] for stream in streams}
    with connection.cursor(binary=True) as cursor:
        for stream, *alike in cursor.execute(_QUERY, (list(found), _TYPES)).fetchall():
            found[stream].append(Alike(*alike))
    return found


def decoded(stored: Iterable[Alike]) -> Events:
    """The events of a stream. Decoded when its row is told, they are still at hand then and soon gone."""
    found: Events = {}
    for alike in stored:
        found.update(zip(alike.versions, _payloads(alike), strict=True))
    return found


def _payloads(alike: Alike) -> Sequence[Payload | Alone]:
    type_, schema, sealed, _, lengths, bodies = alike
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
