"""A bulk of events, folded by several processes: each takes the streams of one shard.

A projection in shards has a checkpoint for each; whoever reads it counts on the smallest. The shards are
joined when all have come equally far. Processes that end before that lose nothing: whoever folds next
goes on with each shard where it stands.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from eventlog.database import Connection
from eventlog.log import Log
from eventlog.projection import Projection, checkpoints, locks, tables
from eventlog.projection.beside import module_of

BULK = 100_000
"""Positions that are worth processes of their own."""

POLL_S = 0.25

_OF = "SELECT shard FROM trajlog.shard WHERE name = %s AND version = %s ORDER BY shard"
_ANY = (
    "SELECT 1 FROM trajlog.shard s JOIN unnest(%s::text[], %s::int[]) p (name, version) USING (name, version) LIMIT 1"
)
_STANDING = """
SELECT k.position, k.position = 0 OR coalesce(k.seal = s.seal, false)
FROM trajlog.shard k LEFT JOIN LATERAL (
    SELECT seal FROM trajlog.segment WHERE last_position >= k.position ORDER BY last_position LIMIT 1
) s ON true WHERE k.name = %s AND k.version = %s AND k.shard = %s
"""
_SPLIT = """
INSERT INTO trajlog.shard SELECT name, version, shard, position, seal
FROM trajlog.projection, generate_series(0, %s - 1) shard WHERE name = %s AND version = %s
"""
_EQUAL = """
SELECT min(position), (array_agg(seal))[1] FROM trajlog.shard WHERE name = %s AND version = %s
HAVING count(DISTINCT (position, seal)) = 1
"""
_FURTHEST = "SELECT max(position) FROM trajlog.shard WHERE name = %s AND version = %s"
_JOIN = "UPDATE trajlog.projection SET position = %s, seal = %s WHERE name = %s AND version = %s"
_DELETE = "DELETE FROM trajlog.shard WHERE name = %s AND version = %s"
_DONE = "SELECT coalesce(avg(position), %s) FROM trajlog.shard WHERE name = %s AND version = %s"


class Shard(NamedTuple):
    """One of so many parts of a projection, from 0."""

    number: int
    of: int


def of(connection: Connection, projection: Projection) -> list[Shard]:
    """The shards that the projection is in, if it is."""
    found = connection.execute(_OF, (projection.name, projection.version)).fetchall()
    return [Shard(number, len(found)) for (number,) in found]


def any_of(connection: Connection, projections: Sequence[Projection]) -> bool:
    """Whether one of them is in shards."""
    names, versions = [p.name for p in projections], [p.version for p in projections]
    return connection.execute(_ANY, (names, versions)).fetchone() is not None


def standing(connection: Connection, projection: Projection, shard: Shard) -> tuple[int, bool]:
    """How far a shard is, and whether the log's commit there is still the one that was folded. One that
    was joined meanwhile has nothing left to do."""
    found = connection.execute(_STANDING, (projection.name, projection.version, shard.number)).fetchone()
    return (2**62, True) if found is None else (int(found[0]), bool(found[1]))


def furthest(connection: Connection, projection: Projection) -> int:
    """The position of the shard that is furthest."""
    (position,) = connection.execute(_FURTHEST, (projection.name, projection.version)).fetchone() or (None,)
    return position or 0


def join(connection: Connection, projection: Projection) -> None:
    """Make one checkpoint of shards that have come equally far."""
    key = (projection.name, projection.version)
    with connection.transaction():
        locks.hold(connection, [projection])
        found = connection.execute(_EQUAL, key).fetchone()
        if found is not None:
            connection.execute(_JOIN, (*found, *key))
            connection.execute(_DELETE, key)


def fold(
    log: Log,
    connection: Connection,
    projections: Sequence[Projection],
    target: int,
    processes: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Fold those of the projections that are far behind in processes of their own. What goes wrong in
    one of them is left for the caller, who folds what they left."""
    assert log.reader is not None
    if all(target - point.position < BULK for point in checkpoints(connection, projections)):
        return
    behind = _split(connection, projections, target, processes)
    if not behind:
        return
    start = checkpoints(connection, behind)[0].position
    number = len(of(connection, behind[0]))
    work = {"url": log.reader.url, "target": target, "names": [[p.name, p.version, module_of(p)] for p in behind]}
    running = [_start({**work, "shard": [i, number]}) for i in range(number)]
    try:
        while any(process.poll() is None for process in running):
            if progress:
                key = (behind[0].name, behind[0].version)
                (done,) = connection.execute(_DONE, (start, *key)).fetchone() or (start,)
                progress(int(done) - start, target - start)
            for process in running:
                if process.poll() is None:
                    _wait(process)
                    break
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
            process.communicate()
    for projection in behind:
        join(connection, projection)


def _split(connection: Connection, projections: Sequence[Projection], target: int, processes: int) -> list[Projection]:
    """Those that stand, or now begin, in so many shards at one place."""
    found: list[Projection] = []
    with connection.transaction():
        locks.hold(connection, projections)
        for projection in projections:
            tables.prepare(connection, projection)
        points = checkpoints(connection, projections)
        for projection, point in zip(projections, points, strict=True):
            known = len(of(connection, projection))
            if not point.trusted or target - point.position < BULK:
                continue
            if not known:
                connection.execute(_SPLIT, (processes, projection.name, projection.version))
            if not found or len(of(connection, found[0])) == (known or processes):
                found.append(projection)
    return found


def _start(work: dict[str, object]) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "eventlog.projection.worker"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(work).encode() + b"\n")
        process.stdin.flush()
    return process


def _wait(process: "subprocess.Popen[bytes]") -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(POLL_S)
