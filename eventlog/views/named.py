"""Episodes by what people write for them: an id, the beginning of one, @last, EP@N."""

import re
from typing import NamedTuple

from core.errors import Ambiguous, NotFound
from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import relation
from eventlog.views import EPISODES, PREFIX, reading


class Named(NamedTuple):
    """An episode that somebody named, and the version they meant (EP@N)."""

    episode: str
    version: int | None = None

    @property
    def stream(self) -> str:
        return PREFIX + self.episode


_NAME = re.compile(r"(?P<name>@last-failed|@last|[^@].*?)(?:@(?P<version>[1-9][0-9]{0,17}))?", re.DOTALL)
_DASHED = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_LAST = "SELECT episode FROM {table} WHERE NOT retracted {which} ORDER BY position DESC LIMIT 1"
_STARTING = "SELECT episode FROM {table} WHERE episode >= %s AND episode < %s ORDER BY episode LIMIT 4"


def resolve(connection: Connection, name: str) -> Named:
    """The episode of that id, unique prefix of an id, `@last` or `@last-failed`; `@N` after it is a version.

    `NotFound`, or `Ambiguous` with the first that fit. On a connection of `eventlog.views.reading`.
    """
    parts = _NAME.fullmatch(name.removeprefix(PREFIX))
    if parts is None:
        raise _nowhere(connection, name)
    wanted = parts["name"]
    version = int(parts["version"]) if parts["version"] else None
    if wanted.startswith("@"):
        which = "AND verdict = 'fail'" if wanted == "@last-failed" else ""
        row = connection.execute(_LAST.format(table=relation(EPISODES), which=which)).fetchone()
        if row is None:
            raise NotFound("no episode has failed" if which else "there are no episodes yet", where=wanted)
        return Named(row[0], version)
    if _DASHED.fullmatch(wanted.lower()):
        wanted = wanted.lower().replace("-", "")
    if not _storable(wanted):
        raise _unknown(name)
    found = [
        e for (e,) in connection.execute(_STARTING.format(table=relation(EPISODES)), (wanted, wanted + "\U0010ffff"))
    ]
    if wanted in found:
        return Named(wanted, version)
    if connection.execute("SELECT 1 FROM stream WHERE stream = %s", (PREFIX + wanted,)).fetchone():
        return Named(wanted, version)  # events without a start: no list shows them, but they can be read
    if not found:
        raise _nowhere(connection, name)
    if len(found) > 1:
        shown = ", ".join(found[:3]) + (", …" if len(found) > 3 else "")
        raise Ambiguous(f"more than one episode starts with it: {shown}", where=name, mend="write more of the id")
    return Named(found[0], version)


def stream_of(log: Log, name: str) -> str:
    """The stream of an episode as people write it, or a whole stream name; see `resolve`."""
    for stream in (name, PREFIX + name):
        if "/" in stream and _storable(stream) and log.stream_head(stream):
            return stream
    with reading(log) as connection:
        return resolve(connection, name).stream


def _storable(text: str) -> bool:
    """Whether it can be part of a query: no NUL, no lone surrogate."""
    return "\0" not in text and text == text.encode(errors="replace").decode()


def _nowhere(connection: Connection, name: str) -> NotFound:
    """Of EP@N it is the episode, or else the number."""
    before, _, number = name.rpartition("@")
    if not before:
        return _unknown(name)
    episode = resolve(connection, before).episode
    return NotFound(f"no such event: @{number}", where=episode, mend="they are numbered from 1: EP@1")


def _unknown(name: str) -> NotFound:
    return NotFound(
        "no such episode", where=name or "''", mend="trajlog ls lists them; @last and @last-failed name one"
    )
