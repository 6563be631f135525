"""One projection's part of one batch: states in, events folded, rows and states out."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from core.errors import SchemaMismatch
from core.event import StoredEvent
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import Column, Projection, Row, beside_table, name_of, table
from eventlog.projection.rows import copy, keys, of_the_database, storable

_PATH = re.compile(r" - at `[^`]*`$")
_STATE = (Column("stream"), Column("version", "bigint"), Column("position", "bigint"), Column("state", "bytea"))
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
            try:
                states[stream] = apply(initial(stream) if state is None else state, event)
            except Exception as error:
                self._fail(event, error)
            else:
                last[stream] = event

    def write(self, log: Log) -> Warm:
        """Replace the rows and states of the touched streams, and park those that failed."""
        for stream, (event, reason) in self._failed.items():
            if event.version > 1:
                self._refold(log, stream, event.version - 1)
            self._park(stream, event.position, reason)
        touched = list(self._last)
        try:
            with self._connection.transaction():
                self._replace(touched)
        except Exception as error:
            if of_the_database(error):
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
            f"SELECT stream, state, version FROM {beside_table(self.projection)} WHERE stream = ANY(%s)",
            (streams,),
            binary=True,
        )
        for stream, state, version in found:
            try:
                loaded = self.projection.load(state)
            except Exception as error:
                raise SchemaMismatch(
                    f"what it kept of {stream} cannot be read by this fold ({type(error).__name__})",
                    where=f"projection {self.projection.name} v{self.projection.version}",
                    mend="a fold that changes its state takes a new version",
                ) from error
            yield stream, loaded, version

    def _fail(self, event: StoredEvent, error: Exception) -> None:
        self._failed[event.stream] = event, reason(error, event)
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
        """One stream alone. Whose rows cannot be made or stored has none."""
        try:
            with self._connection.transaction():
                self._replace([stream])
        except Exception as error:
            if of_the_database(error):
                raise
            remove(self._connection, self.projection, [stream])
            if stream not in self._failed:
                event = self._last[stream]
                self._park(stream, event.position, f"{type(error).__name__} in its rows at version {event.version}")
                self._parked.add(stream)

    def _replace(self, streams: list[str]) -> None:
        projection, connection = self.projection, self._connection
        rows: list[Row] = []
        stale: list[Row] = []
        states = []
        emptied: list[str] = []
        gives_all = getattr(projection, "gives_all", False)
        key = [[column.name for column in projection.columns].index(name) for name in projection.key]
        for stream in streams:
            before = self._stored.get(stream, 0)
            event, state = self._last[stream], self._states[stream]
            changed = storable(projection, projection.rows(state, before))
            _check_names(changed, key[0], name_of(projection, stream))
            rows += changed
            if before and gives_all:
                emptied.append(name_of(projection, stream))
            elif before:
                stale += [tuple(row[i] for i in key) for row in changed]
            states.append((stream, event.version, event.position, projection.dump(state)))
        if emptied:
            connection.execute(f'DELETE FROM {table(projection)} WHERE "{projection.key[0]}" = ANY(%s)', (emptied,))
        if stale:
            names = ", ".join(f'"{name}"' for name in projection.key)
            chosen, values = keys(projection.columns, projection.key, stale)
            connection.execute(f"DELETE FROM {table(projection)} WHERE ({names}) IN {chosen}", values)
        copy(connection, table(projection), projection.columns, rows)
        known = [stream for stream in streams if self._stored.get(stream)]
        if known:
            connection.execute(f"DELETE FROM {beside_table(projection)} WHERE stream = ANY(%s)", (known,))
        copy(connection, beside_table(projection), _STATE, states)


def remove(connection: Connection, projection: Projection, streams: Sequence[str]) -> None:
    """Remove all rows and states of these streams."""
    names = [name_of(projection, stream) for stream in streams]
    connection.execute(f'DELETE FROM {table(projection)} WHERE "{projection.key[0]}" = ANY(%s)', (names,))
    connection.execute(f"DELETE FROM {beside_table(projection)} WHERE stream = ANY(%s)", (list(streams),))


def reason(error: Exception, event: StoredEvent) -> str:
    """Why a fold could not take an event, without anything that the event says."""
    path = _PATH.search(str(error)) if type(error).__module__ == "msgspec" else None
    return f"{type(error).__name__} in {event.type} at version {event.version}{path[0] if path else ''}"


def _check_names(rows: list[Row], at: int, name: str) -> None:
    for row in rows:
        if row[at] != name:
            raise ValueError("the first column of the key is not the stream's name")
