"""Which episodes the log has already and which import brought them, asked for many streams at a time."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from core.errors import BadRecord
from eventlog.log import Log


class _Origin(msgspec.Struct):
    import_id: str


class _Started(msgspec.Struct):
    origin: _Origin


_decode = msgspec.json.Decoder(_Started).decode
_FIRST = "SELECT stream, body FROM trajlog.event WHERE stream = ANY(%b) AND version = 1"

Firsts = Mapping[str, bytes | None]
"""The bodies of streams' first events; None where there is no such stream."""

NOTHING: Firsts = MappingProxyType({})


class Presence:
    """The first events of streams. That a stream is new is believed from when it was looked up: the
    append itself finds what came since."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._first: dict[str, bytes | None] = {}

    def look_up(self, streams: Iterable[str], known: Firsts = NOTHING) -> Firsts:
        """Ask for these streams, but for those that are `known` from before, and forget all others."""
        asked = [stream for stream in streams if stream not in known]
        self._first = {**known, **dict.fromkeys(asked)}
        if asked and self._log.reader is not None:
            with self._log.reader.borrow() as connection:
                self._first.update(connection.execute(_FIRST, (asked,)).fetchall())
        elif asked:
            self._first.update((stream, self._read(stream)) for stream in asked)
        return self._first

    def import_of(self, stream: str) -> str | None:
        """The import that brought the episode; None if the log has no such stream."""
        first = self._first[stream] if stream in self._first else self._read(stream)
        if first is None:
            return None
        try:
            return _decode(first).origin.import_id
        except msgspec.DecodeError:
            raise BadRecord(f"its stream {stream} holds other events") from None

    def _read(self, stream: str) -> bytes | None:
        return next((event.body for event in self._log.read(stream, until=1)), None)
