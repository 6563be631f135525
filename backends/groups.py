"""Groups: rollouts of one task under one planner, which are compared with one another.

The wish for a group is an event in `group/<id>`, so that one that was interrupted can be completed:
what is open is gone on with, what was cancelled or never begun is run.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from backends import resuming
from backends.jobs import Job
from core.errors import NotFound
from core.identity import uuid7
from core.vocabulary import payload
from core.vocabulary.contract import Cancelled
from core.vocabulary.episode import EpisodeEnded
from core.vocabulary.rollout import RolloutRequested
from eventlog.log import Log
from eventlog.writer import Writer

if TYPE_CHECKING:
    from eventlog.database import Connection

PREFIX = "group/"


def begin(log: Log, job: Job, count: int, policy: str, writer: Writer) -> list[Job]:
    """A new group of `count` rollouts of the job. They share the environment's seed."""
    id = uuid7().hex()
    log.append(writer.event(PREFIX + id, RolloutRequested(job.task, policy, count)))
    return [_rollout(job, id, number) for number in range(count)]


def episodes_of(connection: "Connection", id: str) -> list[str]:
    """The episodes of a group that were begun, in the order of their beginning."""
    rows = connection.execute(
        'SELECT episode FROM trajlog_view.episode WHERE "group" = %s AND NOT retracted ORDER BY position', (id,)
    )
    return [episode for (episode,) in rows]


def rest(log: Log, id: str, episodes: Iterable[str]) -> tuple[list[tuple[str, Job]], list[Job]]:
    """What of a group is still to be done: the open episodes to go on with, and those to run anew.
    `episodes`: the ids of those begun. `NotFound` if there is no such group, or none was begun."""
    wanted = next((said for said in map(payload, log.read(PREFIX + id)) if isinstance(said, RolloutRequested)), None)
    begun = [(episode, resuming.job_of(log, episode)) for episode in episodes]
    if wanted is None or not begun:
        raise NotFound("no such group, or nothing of it was begun", where=id, mend="start it anew")
    open_: dict[int, tuple[str, Job]] = {}
    done: set[int] = set()
    attempts: dict[int, int] = {}
    for episode, job in begun:
        rollout = job.rollout or 0
        attempts[rollout] = max(attempts.get(rollout, 0), job.attempt)
        ended = [said for said in map(payload, log.read(f"episode/{episode}")) if isinstance(said, EpisodeEnded)]
        if not ended:
            open_[rollout] = episode, job
        elif not isinstance(ended[0].end, Cancelled):
            done.add(rollout)
    model = begun[0][1]
    anew = [
        _rollout(model, id, number, attempts.get(number, 0) + 1)
        for number in range(wanted.rollouts)
        if number not in done and number not in open_
    ]
    return [open_[number] for number in sorted(open_.keys() - done)], anew


def _rollout(job: Job, group: str, number: int, attempt: int = 1) -> Job:
    seeds = {**job.seeds, "planner": number}
    return replace(job, group=group, rollout=number, attempt=attempt, seeds=seeds)
