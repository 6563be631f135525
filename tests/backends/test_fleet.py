"""Many episodes at once: each whole, each by itself, all of them ended when somebody stops the run."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from backends import groups, resuming
from backends.contract import EnvironmentLost, ResetRefused
from backends.fleet import Fleet
from backends.jobs import Limits
from backends.phone import Phone
from backends.planners import PlannerSpec
from backends.resuming import Hold
from core.errors import DiskFull, UsageError
from core.vocabulary.contract import Action, Feedback
from core.vocabulary.episode import EpisodeEnded, FeedbackRecorded
from eventlog.inmemory import InMemoryLog
from eventlog.verify import verify
from eventlog.writer import Writer
from tests.backends.plays import ALL, Wayward, gold, job, lost, of_type
from tests.backends.server import serving
from tests.databases import Databases

FLIGHT = ALL["early-flight"]
LIMITS = Limits()


def fleet(log: Any, make: Any = Phone, *, parallel: int = 4, plan: Any = None) -> Fleet:
    return Fleet(log, make, plan or (lambda: gold(FLIGHT)), limits=LIMITS, parallel=parallel)


def test_a_group_runs_at_once_on_one_ledger_and_each_episode_is_whole(databases: Databases) -> None:
    with databases.fresh("fleet").ledger() as log:
        jobs = groups.begin(log, job(FLIGHT), 12, "script:gold", Writer("t"))
        found = list(fleet(log, parallel=4).run([(None, one) for one in jobs], resuming.go_on))
        assert sorted(one.rollout or 0 for one in found) == list(range(12))
        assert {one.verdict for one in found} == {"pass"}
        for one in found:
            assert len(of_type(list(log.read(f"episode/{one.episode}")), EpisodeEnded)) == 1
        assert verify(log.reader).ok


def test_they_do_run_at_once() -> None:
    together = threading.Barrier(3, timeout=20)

    def meet(n: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        if n == 1:
            together.wait()
        return real()

    jobs = [(None, job(FLIGHT))] * 3
    found = list(fleet(InMemoryLog(), lambda: Wayward(meet), parallel=3).run(jobs, resuming.go_on))
    assert [one.verdict for one in found] == ["pass"] * 3


def test_an_environment_that_cannot_begin_costs_its_episode_alone() -> None:
    made: list[int] = []

    class Sometimes(Phone):
        def reset(self, spec: Any) -> str:
            made.append(1)
            if len(made) == 2:
                raise EnvironmentLost("disk full")
            if len(made) == 3:
                raise ResetRefused("no such state")
            return super().reset(spec)

    log = InMemoryLog()
    found = list(fleet(log, Sometimes, parallel=1).run([(None, job(FLIGHT))] * 4, resuming.go_on))
    assert [one.end for one in found] == ["finished", "not begun", "not begun", "finished"]
    assert [one.infrastructure for one in found] == [False, True, False, False]
    assert [one.episode is None for one in found] == [False, True, True, False]


def interrupt_when(ready: Callable[[], object]) -> None:
    """Ctrl-C, once that is so."""

    def wait() -> None:
        ready()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


def test_ctrl_c_ends_what_waits_for_a_model_and_starts_nothing_more() -> None:
    log = InMemoryLog()
    with serving(FLIGHT.plans.gold) as server:
        server.hang.set()
        running = fleet(log, plan=PlannerSpec(f"openai:{server.url}#m").make, parallel=2)
        interrupt_when(lambda: server.asked_within(2, 20))
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            list(running.run([(None, job(FLIGHT))] * 6, resuming.go_on))
        assert time.monotonic() - begun < 10
    ends = of_type(list(log.read_all()), EpisodeEnded)
    assert [one.end.kind for one in ends] == ["cancelled", "cancelled"]


def test_ctrl_c_breaks_off_an_action_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.fleet.GRACE_S", 0.2)
    log = InMemoryLog()
    under_way, closed = threading.Event(), threading.Event()

    class Stuck(Wayward):
        def close(self) -> None:
            closed.set()
            super().close()

    def hang(n: int, action: Action, real: Callable[[], Feedback]) -> Feedback:
        under_way.set()
        closed.wait(20)
        return lost()

    interrupt_when(lambda: under_way.wait(20))
    with pytest.raises(KeyboardInterrupt):
        list(fleet(log, lambda: Stuck(hang, determinism="D2")).run([(None, job(FLIGHT))], resuming.go_on))
    events = list(log.read_all())
    assert [one.feedback.effect for one in of_type(events, FeedbackRecorded)] == ["unknown"]
    assert [one.end.kind for one in of_type(events, EpisodeEnded)] == ["cancelled"]


def test_what_the_log_cannot_take_stops_the_run() -> None:
    class Full:
        def __init__(self) -> None:
            self._log = InMemoryLog()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._log, name)

        def append(self, event: Any, **options: Any) -> Any:
            raise DiskFull("no space left")

    with pytest.raises(DiskFull):
        list(fleet(Full()).run([(None, job(FLIGHT))] * 3, resuming.go_on))


def test_no_two_processes_run_one_episode(databases: Databases) -> None:
    database = databases.fresh("alone")
    with database.ledger() as log, database.ledger() as other, Hold.on(log) as mine, Hold.on(other) as theirs:
        with mine.alone("e1"), mine.alone("e2"), pytest.raises(UsageError, match="another process"), theirs.alone("e1"):
            pass
        with theirs.alone("e1"), theirs.alone("e2"):
            pass
