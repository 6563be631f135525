"""The passing episode to hold a failed one against: of the same task, and as alike as there is."""

from collections.abc import Callable
from typing import Final

from core.errors import NotFound
from eventlog.comparison.align import common
from eventlog.comparison.calls import calls_of, recorded
from eventlog.database import Connection
from eventlog.projection import relation
from eventlog.views import EPISODES

CANDIDATES: Final = 50
"""How many passing episodes are looked at: those of the same source and environment first, the newest of them."""

_ABOUT = f"SELECT task, source, environment FROM {relation(EPISODES)} WHERE episode = %s"
_PASSING = (
    f"SELECT episode, source IS NOT DISTINCT FROM %s AND environment IS NOT DISTINCT FROM %s AS akin "
    f"FROM {relation(EPISODES)} WHERE task = %s AND verdict = 'pass' AND NOT retracted AND episode <> %s "
    "ORDER BY akin DESC, position DESC LIMIT %s"
)


def closest(
    connection: Connection,
    episode: str,
    masks: tuple[str, ...] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> str:
    """The id of the passing episode of the same task that shares most calls with this one; of several
    one of the same source and environment, of those the newest. `NotFound`."""
    task, source, environment = connection.execute(_ABOUT, (episode,)).fetchone() or (None, None, None)
    if task is None:
        raise NotFound("it names no task, so no other episode is of the same", where=episode, mend="name a second one")
    found = connection.execute(_PASSING, (source, environment, task, episode, CANDIDATES)).fetchall()
    if not found:
        raise NotFound(f"no other episode of task {task} has passed", where=episode, mend="name a second one")
    if len(found) == 1:
        return str(found[0][0])
    ours = _keys(connection, episode, masks)
    best, most = found[0][0], -1
    for done, (candidate, _) in enumerate(found):
        shared = len(common(ours, _keys(connection, candidate, masks)))
        if shared > most:
            best, most = candidate, shared
        progress(done + 1)
    return str(best)


def _keys(connection: Connection, episode: str, masks: tuple[str, ...]) -> list[tuple[str, bytes]]:
    (events,) = recorded(connection, episode)
    return [call.key(masks) for call in calls_of(events)]
