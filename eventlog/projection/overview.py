"""Every projection and reactor with where it stands."""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from eventlog.database import Connection
from eventlog.projection import AnyProjection, Checkpoint, View, checkpoints
from eventlog.projection.reactor import Known, Reactor
from eventlog.projection.tables import NEW, OLD

State = Literal[
    "new",  # never folded: the first command that reads it, or `project run`, begins
    "live",  # the one that is read
    "building",  # beside the one that is read
    "kept",  # what a new version or a rebuild took the place of
    "refused",  # the log is not the one that was folded: rebuild it
    "reactor",  # has effects: runs with `project run` alone
    "left",  # its plug-in is not installed any more
]

_ROWS: Final = "SELECT name, version, live FROM trajlog.projection ORDER BY name, version DESC"


class Standing(msgspec.Struct, frozen=True):
    """Where one stands: `lag` counts the events it has not folded yet, `parked` the streams it stopped at."""

    name: str
    version: int
    position: int
    lag: int
    parked: int
    state: State


def overview(connection: Connection, known: Sequence[AnyProjection], reactors: Sequence[Reactor]) -> list[Standing]:
    """Those that there is code for in their order, each with what else the database has of its name, then
    the rest."""
    rows = [row for row in connection.execute(_ROWS).fetchall() if row[0] != "grep"]
    points = {
        (point.name, point.version): point
        for point in checkpoints(connection, [View(name, version) for name, version, _ in rows])
    }
    found: list[Standing] = []
    for projection in known:
        ours = [row for row in rows if row[0].partition("/")[0] == projection.name]
        if (projection.name, projection.version) not in points:
            (point,) = checkpoints(connection, [projection])
            found.append(_standing(point, "new"))
        for name, version, live in sorted(ours, key=lambda row: (not row[2], -row[1], row[0])):
            point = points[name, version]
            newer = version == projection.version and not live and not name.endswith(OLD)
            state: State = "live" if live else "building" if name.endswith(NEW) or newer else "kept"
            found.append(_standing(point, state))
    for reactor in reactors:
        (point,) = checkpoints(connection, [Known(reactor.name)])
        found.append(_standing(point, "reactor" if point.made else "new"))
    with_code = {one.name for one in known} | {one.name for one in reactors}
    found += [_standing(points[name, version], "left") for name, version, _ in rows if _bare(name) not in with_code]
    return found


def _standing(point: Checkpoint, state: State) -> Standing:
    refused = not point.trusted and state not in ("kept", "left")
    lag = max(point.lag, 0)
    return Standing(
        _bare(point.name), point.version, point.position, lag, point.parked, "refused" if refused else state
    )


def _bare(name: str) -> str:
    return name.partition("/")[0]
