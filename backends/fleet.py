"""Runs many episodes, some at once: each in a thread, with an environment and a planner of its own.

Threads do: an environment that computes lives in another process, and a planner waits for a server.
"""

import queue
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from typing import Final

from backends.contract import Backend, Make
from backends.jobs import Job, Limits, Outcome
from backends.planners import Planner
from backends.resuming import Hold
from backends.running import Episode
from core.errors import TrajlogError, Unavailable
from core.identity import uuid7
from eventlog.log import Log

GRACE_S: Final = 3.0
"""How long an action under way may take to end by itself once somebody stops the run."""

LOOK_S: Final = 0.1

Begun = Callable[[Episode], Outcome]


class Fleet:
    """`make` and `plan` make an environment and a planner for each episode."""

    def __init__(self, log: Log, make: Make, plan: Callable[[], Planner], *, limits: Limits, parallel: int = 1) -> None:
        self._log = log
        self._make = make
        self._plan = plan
        self._limits = limits
        self._parallel = parallel
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._under_way: dict[str, tuple[Backend, Planner]] = {}

    def run(self, jobs: Sequence[tuple[str | None, Job]], begun: Begun) -> Generator[Outcome, None, None]:
        """Run each job, as a new episode or, by `begun`, as the one of that id; yields what becomes of them
        as they end. A KeyboardInterrupt ends those under way as cancelled before it goes on; what the log
        refuses or cannot take is raised."""
        with Hold.on(self._log) as hold:
            yield from self._run(jobs, begun, hold)

    def _run(self, jobs: Sequence[tuple[str | None, Job]], begun: Begun, hold: Hold) -> Generator[Outcome, None, None]:
        waiting: queue.SimpleQueue[tuple[str | None, Job]] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        done: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._work, args=(waiting, done, begun, hold), name=f"episode-{n}", daemon=True)
            for n in range(min(self._parallel, len(jobs)))
        ]
        working = len(threads)
        try:
            for thread in threads:
                thread.start()
            while working:
                try:
                    found = done.get(timeout=LOOK_S)
                except queue.Empty:  # a signal that another thread caught is noticed only between two waits
                    continue
                if found is None:
                    working -= 1
                elif isinstance(found, BaseException):
                    raise found
                else:
                    yield found
        finally:
            self._end(threads)

    def _end(self, threads: list[threading.Thread]) -> None:
        """Stop whatever is under way, and wait until its end is recorded."""
        self._stop.set()
        if any(thread.ident is None for thread in threads):
            time.sleep(LOOK_S)  # interrupted while it was being started: it may be running by now
        begun = [thread for thread in threads if thread.ident is not None]
        for _, planner in self._now():
            planner.cancel()
        deadline = time.monotonic() + GRACE_S
        for thread in begun:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in begun):
            for backend, _ in self._now():
                backend.close()  # an action that takes longer is broken off
            for thread in begun:
                thread.join(self._limits.action_s + GRACE_S)

    def _now(self) -> list[tuple[Backend, Planner]]:
        with self._lock:
            return list(self._under_way.values())

    def _work(
        self,
        waiting: "queue.SimpleQueue[tuple[str | None, Job]]",
        done: "queue.SimpleQueue[Outcome | BaseException | None]",
        begun: Begun,
        hold: Hold,
    ) -> None:
        try:
            while not self._stop.is_set():
                try:
                    id, job = waiting.get_nowait()
                except queue.Empty:
                    return
                done.put(self._one(id or uuid7().hex(), job, begun if id else None, hold))
        except BaseException as error:
            self._stop.set()
            done.put(error)
        finally:
            done.put(None)

    def _one(self, id: str, job: Job, begun: Begun | None, hold: Hold) -> Outcome:
        with ExitStack() as stack:
            stack.enter_context(hold.alone(id))
            try:
                backend = self._make()
                stack.callback(backend.close)
                planner = self._plan()
                stack.callback(planner.close)
                episode = Episode(self._log, backend, planner, job, id=id, limits=self._limits, stop=self._stop)
            except Unavailable as error:
                return _never(job, error)
            with self._lock:
                self._under_way[id] = backend, planner
            stack.callback(self._forget, id)
            if begun is not None:
                return begun(episode)
            try:
                return episode.run()
            except TrajlogError as error:
                if episode.track.recorder.begun:
                    raise
                return _never(job, error)

    def _forget(self, id: str) -> None:
        with self._lock:
            self._under_way.pop(id, None)


def _never(job: Job, error: TrajlogError) -> Outcome:
    """An episode that could not begin: nothing is in the log."""
    return Outcome(
        episode=None,
        task=job.task,
        rollout=job.rollout,
        end="not begun",
        verdict="unverified",
        message=str(error),
        infrastructure=isinstance(error, Unavailable),
    )
