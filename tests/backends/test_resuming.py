"""An episode whose process was killed at any moment is gone on with, and ends as it would have."""

from typing import Any

import msgspec
import pytest

from backends import groups, resuming, tasks
from backends.faults import Fault
from backends.jobs import Outcome
from backends.phone import Phone
from backends.running import Episode
from core.errors import Incomplete, NotFound, UsageError
from core.event import StoredEvent
from core.vocabulary.contract import Cancelled, ExecError, ToolResult
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    FeedbackRecorded,
    ModelResponded,
    VerificationRecorded,
)
from eventlog.inmemory import InMemoryLog
from eventlog.writer import Writer
from tests.backends.plays import ALL, Killed, Mortal, Wayward, gold, hidden, job, of_type, play

FAULT = [Fault(fault="lost", tool="wait", calls=[1], class_="transport_lost", effect="unknown")]


def killed(name: str, at: int, stored: bool, plan: list[Fault]) -> tuple[InMemoryLog, str] | None:
    """A log in which a process was killed at its `at`-th append; None if it had ended before."""
    log = InMemoryLog()
    tasks.store(log, ALL[name], Writer("t"))
    episode = Episode(Mortal(log, at, stored=stored), Phone(), gold(ALL[name]), job(ALL[name], plan))
    try:
        episode.run()
    except Killed:
        return log, episode.track.id
    return None


def go_on(log: InMemoryLog, id: str, backend: Any = None) -> Outcome:
    task = resuming.job_of(log, id)
    planner = gold(ALL[task.task.removeprefix("phone/")])
    return resuming.go_on(Episode(log, backend or Phone(), planner, task, id=id))


def events_of(log: InMemoryLog, id: str | None) -> list[StoredEvent]:
    return list(log.read(f"episode/{id}"))


def calls(events: list[StoredEvent]) -> list[tuple[int, bytes]]:
    return [(said.step, msgspec.json.encode(said.action)) for said in of_type(events, ActionSubmitted)]


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("name", "plan"), [("quiet-meeting", []), ("quiet-meeting", FAULT), ("shopping-list", [])])
def test_killed_at_any_event_it_ends_as_it_would_have(name: str, plan: list[Fault], stored: bool) -> None:
    clean = InMemoryLog()
    wanted, wanted_events = play(ALL[name], log=clean, plan=plan)
    at = 1
    resumed = 0
    while (found := killed(name, at, stored, plan)) is not None:
        at += 1
        log, id = found
        before = events_of(log, id)
        if not before:
            with pytest.raises(NotFound):
                resuming.job_of(log, id)
            continue
        if of_type(before, EpisodeEnded):
            with pytest.raises(UsageError, match="has ended"):
                go_on(log, id)
            continue
        outcome = go_on(log, id)
        events = events_of(log, id)
        resumed += 1
        assert (outcome.verdict, outcome.end) == (wanted.verdict, wanted.end)
        assert hidden(log, id).after_digest == hidden(clean, wanted.episode).after_digest
        assert calls(events) == calls(wanted_events)  # nothing decided twice, nothing lost
        assert [event.body for event in events[: len(before)]] == [event.body for event in before]
        [ended] = of_type(events, EpisodeEnded)
        assert len(ended.runs) == 2
        assert sum(ended.runs.values()) == len(events) - 1
        answers = {said.action: said.feedback for said in of_type(events, FeedbackRecorded)}
        unanswered = [v for v in answers if isinstance(answers[v], ExecError) and not plan]
        assert unanswered == []
    assert resumed > 15


def test_what_was_under_way_is_unknown_and_then_settled() -> None:
    log = InMemoryLog()
    tasks.store(log, ALL["early-flight"], Writer("t"))

    def die(n: int, action: Any, real: Any) -> Any:
        if n == 2:
            real()
            mortal._left = 0  # the process dies while the action is carried out
            raise Killed
        return real()

    mortal = Mortal(log, 10_000, stored=False)
    episode = Episode(mortal, Wayward(die), gold(ALL["early-flight"]), job(ALL["early-flight"]))
    with pytest.raises(Killed):
        episode.run()
    assert events_of(log, episode.track.id)[-1].type == "ActionDispatched"
    outcome = go_on(log, episode.track.id, Wayward(lambda n, action, real: real()))
    lost, settled = of_type(events_of(log, outcome.episode), FeedbackRecorded)[1:]
    assert (lost.feedback.class_, lost.feedback.effect) == ("transport_lost", "unknown")
    assert isinstance(settled.feedback, ToolResult)
    assert outcome.verdict == "pass"


def test_an_open_episode_can_be_ended_instead() -> None:
    found = killed("early-flight", 12, True, [])
    assert found is not None
    log, id = found
    episode = Episode(log, Phone(), gold(ALL["early-flight"]), resuming.job_of(log, id), id=id)
    outcome = resuming.end(episode, "its process was killed")
    assert (outcome.end, outcome.verdict) == ("cancelled", "inconclusive")
    events = events_of(log, id)
    assert isinstance(of_type(events, EpisodeEnded)[0].end, Cancelled)
    assert len(of_type(events, VerificationRecorded)) == 1


def test_what_is_not_reproducible_can_only_be_ended() -> None:
    found = killed("early-flight", 12, True, [])
    assert found is not None
    log, id = found
    with pytest.raises(UsageError, match="--end"):
        go_on(log, id, Wayward(lambda n, action, real: real(), determinism="D2"))


def test_an_environment_that_became_another_is_noticed() -> None:
    found = killed("quiet-meeting", 24, True, [])
    assert found is not None

    class Changed(Phone):
        def reset(self, spec: Any) -> str:
            super().reset(spec)
            return self._become({**self._state, "new": 1}, self._how)  # type: ignore[dict-item]

    outcome = go_on(*found, Changed())
    assert outcome.end == "env_failure"
    assert "another state" in (outcome.message or "")


def test_an_imported_episode_is_none_to_go_on_with() -> None:
    log = InMemoryLog()
    with log.episode(task="airline/3", id="1f0c") as episode:
        episode.message("user", "Hello")
    with pytest.raises(Incomplete, match="was not run by trajlog"):
        resuming.job_of(log, "1f0c")


def test_a_group_is_completed_by_what_is_missing_of_it() -> None:
    log = InMemoryLog()
    task = ALL["early-flight"]
    tasks.store(log, task, Writer("t"))
    jobs = groups.begin(log, job(task), 5, "script:gold", Writer("t"))
    assert [one.seeds["planner"] for one in jobs] == [0, 1, 2, 3, 4]
    group = jobs[0].group or ""
    done = Episode(log, Phone(), gold(task), jobs[0]).run()
    failed = Episode(log, Phone(), gold(task), msgspec.structs.replace(jobs[1], plan=[Fault(fault="x")])).run()
    stopped = Episode(log, Phone(), gold(task), jobs[2])
    stopped._stop.set()
    stopped.run()
    open_ = Episode(Mortal(log, 9, stored=True), Phone(), gold(task), jobs[3])
    with pytest.raises(Killed):
        open_.run()
    ids = [done.episode or "", failed.episode or "", stopped.track.id, open_.track.id]
    left, anew = groups.rest(log, group, ids)
    assert [(id, one.rollout) for id, one in left] == [(open_.track.id, 3)]
    assert [(one.rollout, one.attempt, one.group) for one in anew] == [(2, 2, group), (4, 1, group)]
    with pytest.raises(NotFound):
        groups.rest(log, "nowhere", ids)
    with pytest.raises(NotFound):
        groups.rest(log, group, [])


def test_a_turn_that_decided_nothing_yet_is_asked_for_again() -> None:
    log = InMemoryLog()
    tasks.store(log, ALL["early-flight"], Writer("t"))
    found = killed("early-flight", 3, True, [])
    assert found is not None
    assert events_of(*found)[-1].type == "ModelResponded"
    go_on(*found)
    assert [one.step for one in of_type(events_of(*found), ModelResponded)] == [1, 1, 2, 3]
