"""Going on with an episode whose process was killed, from its own record.

What was recorded stands. A turn of which nothing was submitted is asked for again; an action that never
left is carried out; one that left and was not answered is `effect: unknown`, and settled by bringing the
environment back and carrying it out again. That takes a reproducible environment (D0): elsewhere the
world of a dead process is gone, and the episode can only be ended.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import msgspec

from backends import faults, tasks
from backends.contract import ResetSpec
from backends.jobs import Job, Outcome
from backends.recovery import REPRODUCIBLE, Past
from backends.running import Episode
from backends.track import settled
from backends.verifier import Answered
from core.errors import Incomplete, NotFound, UsageError
from core.event import StoredEvent
from core.vocabulary import Unknown, payload
from core.vocabulary.contract import Action, Cancelled, End, ExecError, UserReply
from core.vocabulary.episode import (
    ActionDispatched,
    ActionSubmitted,
    BudgetCharged,
    EpisodeStarted,
    FaultInjected,
    FeedbackRecorded,
    ModelResponded,
)
from eventlog.log import Log

if TYPE_CHECKING:
    from eventlog.database import Connection

LOST = "the process that carried it out was killed"


def started(log: Log, id: str) -> EpisodeStarted:
    """How the episode began. `NotFound` if it did not."""
    first = next(iter(log.read(f"episode/{id}", until=1)), None)
    said = None if first is None else payload(first)
    if not isinstance(said, EpisodeStarted):
        raise NotFound("no such episode was ever begun", where=id)
    return said


def reset_spec(log: Log, begun: EpisodeStarted) -> ResetSpec:
    """What a recorded episode started from; the empty conditions where it names no task of this log."""
    if begun.task is None or begun.task_digest is None:
        return ResetSpec(task=begun.task, seeds=begun.seeds)
    return ResetSpec.of(begun.task, tasks.load(log, begun.task, begun.task_digest).task.spec, begun.seeds)


def job_of(log: Log, id: str) -> Job:
    """What a recorded episode was to be. `Incomplete` if it does not say, as an imported one may not."""
    begun = started(log, id)
    if begun.task is None or begun.task_digest is None or begun.environment is None:
        raise Incomplete("it was not run by trajlog: it names no task and environment", where=id)
    return Job(
        task=begun.task,
        spec=tasks.load(log, begun.task, begun.task_digest).task.spec,
        digest=begun.task_digest,
        group=begun.group,
        rollout=begun.rollout,
        attempt=begun.attempt,
        seeds=begun.seeds,
        plan=faults.parse(begun.fault_plan),
        versions=begun.versions,
    )


def go_on(episode: Episode) -> Outcome:
    """Run an episode to its end that was begun by another process."""
    open_ = _read_back(episode)
    if episode.stage.manifest.determinism != REPRODUCIBLE:
        raise UsageError(
            f"{episode.stage.manifest.name} does not come back to where it was",
            where=episode.track.id,
            mend="end the episode instead: --end",
        )
    return episode.to_its_end(lambda: _catch_up(episode, open_))


def end(episode: Episode, why: str) -> Outcome:
    """End an episode that another process begun, as cancelled: what got lost stays unknown."""
    for version, one in _read_back(episode).items():
        if one.left and not one.answered:
            episode.track.answer(_lost(version, one), one.action)
    return episode.finish(Cancelled(why))


class Hold:
    """What keeps two processes from running one episode at once: locks of one database session, which
    end with its process. A log in memory has one process anyway."""

    def __init__(self, connection: "Connection | None") -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    @contextmanager
    def on(cls, log: Log) -> Iterator["Hold"]:
        with log.reader.borrow() if log.reader is not None else nullcontext() as connection:
            yield cls(connection)

    @contextmanager
    def alone(self, id: str) -> Iterator[None]:
        """Hold an episode. `UsageError` if another process does."""
        if not self._does("pg_try_advisory_lock", id):
            raise UsageError("another process is running it", where=id, mend="wait for its end")
        try:
            yield
        finally:
            self._does("pg_advisory_unlock", id)

    def _does(self, function: str, id: str) -> bool:
        if self._connection is None:
            return True
        with self._lock:
            row = self._connection.execute(f"SELECT {function}(hashtextextended(%s, 7))", (id,)).fetchone()
        return bool(row and row[0])


class _Open(msgspec.Struct):
    """A submitted action that is not settled: whether it left, and whether anything was recorded of what
    became of it."""

    step: int
    action: Action
    left: bool = False
    answered: bool = False


def _read_back(episode: Episode) -> dict[int, _Open]:
    """Bring the episode's memory to where its record is; returns what is open, by version."""
    open_: dict[int, _Open] = {}
    injected = False
    for event in _without_void_turn(episode.track.recorder.resume()):
        said = payload(event)
        episode.track.version = event.version
        if isinstance(said, Unknown):
            continue
        if isinstance(said, EpisodeStarted):
            episode.stage.begun = said.state
        elif isinstance(said, ModelResponded) and said.usage is not None:
            episode.spend_tokens((said.usage.prompt_tokens or 0) + (said.usage.completion_tokens or 0))
        elif isinstance(said, BudgetCharged):
            episode.budget.replay(said)
        elif isinstance(said, ActionSubmitted):
            open_[event.version] = _Open(said.step, said.action)
        elif isinstance(said, ActionDispatched):
            _leave(open_, said)
        elif isinstance(said, FaultInjected):
            injected = True
        elif isinstance(said, FeedbackRecorded) and said.action in open_:
            _answer(episode, open_, said, injected)
            injected = False
        episode.track.conversation.add(said, event.version)
    episode.budget.settle()
    return open_


def _without_void_turn(events: list[StoredEvent]) -> list[StoredEvent]:
    """The events without a last turn of which nothing came: it is asked for again."""
    for place in range(len(events) - 1, -1, -1):
        if events[place].type in ("ActionSubmitted", "MessageRecorded"):
            break
        if events[place].type == "ModelResponded":
            return [*events[:place], *events[place + 1 :]]
    return events


def _leave(open_: dict[int, _Open], said: ActionDispatched) -> None:
    """The submitted action that left: the first of its step and call id that had not."""
    for one in open_.values():
        if not one.left and one.step == said.step and getattr(one.action, "call_id", None) == said.call_id:
            one.left = True
            return


def _answer(episode: Episode, open_: dict[int, _Open], said: FeedbackRecorded, injected: bool) -> None:
    """What came back for an open action. A lost answer that no fault explains leaves it open."""
    version = said.action or 0
    one = open_[version]
    episode.track.answered[version] = Answered(one.action, said.feedback)
    lost = isinstance(said.feedback, ExecError) and said.feedback.effect == "unknown"
    if lost and not injected and settled(said) is None:
        one.answered = True
        return
    del open_[version]
    if not isinstance(said.feedback, UserReply) and settled(said) != "restored":
        episode.stage.past.append(Past(one.action, f"{episode.track.id}:{version}", said.state_after))


def _catch_up(episode: Episode, open_: dict[int, _Open]) -> End | None:
    """The environment back to where it was, and what is open settled or carried out."""
    if not episode.track.conversation.told:
        episode.greet()
    episode.stage.bring_back()
    for version, one in open_.items():
        if not one.left:
            end = episode.carry_out(one.step, [(version, one.action)])
            if end is not None:
                return end
            continue
        if not one.answered:
            episode.track.answer(_lost(version, one), one.action)
        episode.stage.settle(one.step, version, one.action)
    return None


def _lost(version: int, one: _Open) -> FeedbackRecorded:
    error = ExecError("transport_lost", True, "unknown", message=LOST)
    return FeedbackRecorded(one.step, error, call_id=getattr(one.action, "call_id", None), action=version)
