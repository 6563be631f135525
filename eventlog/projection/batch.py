"""One projection's part of one batch: states in, events folded, rows and states out."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.errors import ProgramLimitExceeded

from core.event import StoredEvent
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import Projection, Row, state_table, table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PATH = re.compile(r" - at `[^`]*`$")
_OF_THE_ROW = (psycopg.DataError, psycopg.IntegrityError, ProgramLimitExceeded)
_PARK = "INSERT INTO trajlog.parked (name, version, stream, position, reason) VALUES (%s, %s, %s, %s, %s)"

Warm = dict[str, tuple[Any, int]]
"""States at hand from the batch before, with the version up to which they are stored."""


class Batch:
    """Folds the events after `position`, in chunks, and writes what they changed."""

    def __init__(self, connection: Connection, projection: Projection, position: int, warm: Warm) -> None:
        self.projection = projection
        self._states: dict[str, Any] = {}
        self._connection = connection
        self._position = position
        self._warm = warm
        self._last: dict[str, StoredEvent] = {}
        self._stored: dict[str, int] = {}
        self._failed: dict[str, tuple[StoredEvent, str]] = {}
        key = (projection.name, projection.version)
        self._parked = {
            stream
            for (stream,) in connection.execute(
                "SELECT stream FROM trajlog.parked WHERE name = %s AND version = %s", key
            )
        }

    def fold(self, chunk: list[StoredEvent]) -> None:
        """Apply consecutive events; passed over: other streams, parked ones, what the checkpoint covers."""
        if chunk[0].position <= self._position:
            chunk = [event for event in chunk if event.position > self._position]
        prefix, initial, apply = self.projection.prefix, self.projection.initial, self.projection.apply
        states, last, parked = self._states, self._last, self._parked
        loaded = False
        for event in chunk:
            stream = event.stream
            state = states.get(stream)
            if state is None:
                if stream in parked or not stream.startswith(prefix):
                    continue
                if event.version > 1 and not loaded:
                    self._load({event.stream for event in chunk if event.stream not in states})
                    loaded = True
                    state = states.get(stream)
                if state is None:
                    state = initial(stream)
            try:
                states[stream] = apply(state, event)
            except Exception as error:
                self._fail(event, error)
            else:
                last[stream] = event

    def write(self, log: Log) -> Warm:
        """Replace the rows and states of the touched streams, and park those that failed."""
        for stream, (event, reason) in self._failed.items():
            self._refold(log, stream, event.version - 1)
            self._park(stream, event.position, reason)
        touched = list(self._last)
        try:
            with self._connection.transaction():
                self._replace(touched)
        except Exception as error:
            if _of_the_database(error):
                raise
            for stream in touched:
                self._replace_or_park(stream)
        return {
            stream: (state, self._last[stream].version)
            for stream, state in self._states.items()
            if stream not in self._parked
        }

    def _load(self, streams: set[str]) -> None:
        """Bring up the states of streams that were folded before."""
        wanted = []
        for stream in streams:
            if stream in self._warm:
                state, version = self._warm.pop(stream)
                self._states[stream], self._stored[stream] = state, version
            elif stream.startswith(self.projection.prefix) and stream not in self._parked:
                wanted.append(stream)
        for stream, state, version in self._read(wanted):
            self._states[stream], self._stored[stream] = state, version

    def _read(self, streams: Sequence[str]) -> Iterable[tuple[str, Any, int]]:
        if not streams:
            return
        found = self._connection.execute(
            f"SELECT stream, state, version FROM {state_table(self.projection)} WHERE stream = ANY(%s)",
            (streams,),
            binary=True,
        )
        for stream, state, version in found:
            yield stream, self.projection.load(state), version

    def _fail(self, event: StoredEvent, error: Exception) -> None:
        path = _PATH.search(str(error)) if type(error).__module__ == "msgspec" else None
        reason = f"{type(error).__name__} in {event.type} at version {event.version}{path[0] if path else ''}"
        self._failed[event.stream] = event, reason
        self._parked.add(event.stream)
        self._states.pop(event.stream, None)
        self._last.pop(event.stream, None)

    def _refold(self, log: Log, stream: str, until: int) -> None:
        """The stream's state before the event that failed: what is stored, and the events since."""
        stored = next(iter(self._read([stream])), None)
        _, state, version = stored or (stream, self.projection.initial(stream), 0)
        for event in log.read(stream, after=version, until=until):
            state = self.projection.apply(state, event)
            self._last[stream] = event
        self._states[stream], self._stored[stream] = state, version

    def _park(self, stream: str, position: int, reason: str) -> None:
        self._connection.execute(_PARK, (self.projection.name, self.projection.version, stream, position, reason))

    def _replace_or_park(self, stream: str) -> None:
        try:
            with self._connection.transaction():
                self._replace([stream])
        except Exception as error:
            if _of_the_database(error):
                raise
            if stream not in self._failed:
                event = self._last[stream]
                self._park(stream, event.position, f"{type(error).__name__} in its rows at version {event.version}")
                self._parked.add(stream)

    def _replace(self, streams: list[str]) -> None:
        projection, connection = self.projection, self._connection
        rows: list[Row] = []
        stale: list[Row] = []
        states = []
        key = [[column.name for column in projection.columns].index(name) for name in projection.key]
        times = [i for i, column in enumerate(projection.columns) if column.type == "timestamptz"]
        for stream in streams:
            before = self._stored.get(stream, 0)
            event, state = self._last[stream], self._states[stream]
            changed = [_storable(row, times) for row in projection.rows(state, before)]
            rows += changed
            if before:
                stale += [tuple(row[i] for i in key) for row in changed]
            states.append((stream, event.version, event.position, projection.dump(state)))
        self._delete(stale)
        with connection.cursor() as cursor, cursor.copy(_copy(table(projection))) as copy:
            copy.set_types([column.type for column in projection.columns])
            for row in rows:
                copy.write_row(row)
        known = [stream for stream in streams if self._stored.get(stream)]
        if known:
            connection.execute(f"DELETE FROM {state_table(projection)} WHERE stream = ANY(%s)", (known,))
        with connection.cursor() as cursor, cursor.copy(_copy(state_table(projection))) as copy:
            copy.set_types(["text", "bigint", "bigint", "bytea"])
            for row in states:
                copy.write_row(row)

    def _delete(self, keys: list[Row]) -> None:
        """Delete the rows that are written anew."""
        if not keys:
            return
        types = {column.name: column.type for column in self.projection.columns}
        arrays = ", ".join(f"%s::{types[name]}[]" for name in self.projection.key)
        names = ", ".join(f'"{name}"' for name in self.projection.key)
        self._connection.execute(
            f"DELETE FROM {table(self.projection)} WHERE ({names}) IN (SELECT * FROM unnest({arrays}))",
            [list(values) for values in zip(*keys, strict=True)],
        )


def _of_the_database(error: Exception) -> bool:
    """Whether it is no single stream's fault."""
    return isinstance(error, psycopg.Error) and not isinstance(error, _OF_THE_ROW)


def _copy(name: str) -> str:
    return f"COPY {name} FROM STDIN (FORMAT binary)"


def _storable(row: Row, times: list[int]) -> Row:
    """The row as Postgres takes it: no NUL in texts, times as datetimes."""
    values = [_text(value) if isinstance(value, str | list) else value for value in row]
    for i in times:
        if values[i] is not None:
            values[i] = _EPOCH + timedelta(microseconds=values[i])
    return tuple(values)


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(item) for item in value]
    return value.replace("\0", "\N{SYMBOL FOR NULL}") if isinstance(value, str) and "\0" in value else value
