"""Given judged episodes, when `task` and `policy` sum them up, then pass rates, groups and pass^k."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UsageError
from core.vocabulary import Payload
from core.vocabulary.episode import EpisodeRetracted, EpisodeStarted, ModelResponded
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.views import POLICIES, TASKS, reading
from eventlog.views.listing import Filters
from eventlog.views.rates import Trials, pass_k, total
from eventlog.views.summaries import POLICY_LIST, TASK_LIST, Order, rows
from tests.eventlog.samples import events, judged, turn

ALL = Filters()


def trials(passed: int, failed: int) -> Trials:
    return Trials(passed + failed, passed, failed)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 6))
def test_pass_k_is_the_share_of_ways_to_draw_k_that_all_passed(passed: int, failed: int, k: int) -> None:
    found = pass_k([trials(passed, failed)])
    if k > passed + failed:
        assert len(found) < k
        return
    outcomes = [True] * passed + [False] * failed
    drawn = [all(chosen) for chosen in itertools.combinations(outcomes, k)]
    assert found[k - 1] == pytest.approx(sum(drawn) / len(drawn))


def test_pass_k_is_averaged_over_those_that_have_k_trials() -> None:
    assert pass_k([trials(2, 0), trials(1, 3), trials(0, 0)]) == [0.625, 0.5, 0.0, 0.0]
    assert pass_k([]) == pass_k([trials(0, 0)]) == []
    assert len(pass_k([trials(40, 2)])) == 8


def test_what_was_judged_otherwise_is_no_evidence() -> None:
    some = Trials(episodes=10, passed=3, failed=1, unverified=4)
    assert (some.judged, some.undecided, some.rate) == (4, 2, 0.75)
    assert Trials(episodes=1, unverified=1).rate is None


@given(st.lists(st.builds(trials, st.integers(0, 9), st.integers(0, 9)), min_size=1))
def test_a_total_does_not_depend_on_the_order(parts: list[Trials]) -> None:
    assert total(parts) == total(reversed(parts))
    assert pass_k(parts) == pass_k(reversed(parts))


EPISODES = (
    # task, policy, group, verdict
    ("alarm", "p1", "g1", "pass"),
    ("alarm", "p1", "g1", "fail"),
    ("alarm", "p1", "g2", "pass"),
    ("alarm", "p2", None, "pass"),
    ("alarm", "p2", None, "inconclusive"),
    ("mail", "p1", "g3", "fail"),
    ("mail", "p1", "g3", "fail"),
    ("mail", None, None, None),
    (None, "p2", None, "pass"),
)


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    for i, (task, policy, group, verdict) in enumerate(EPISODES):
        given: list[Payload] = [EpisodeStarted(task=task, policy=policy, group=group), turn(1), turn(2)]
        if i == 0:
            given.append(ModelResponded(step=3))
        if verdict:
            given.append(judged(verdict))
        ledger.append_many(events(f"episode/e{i}", given))
    ledger.append_many(events("episode/gone", [EpisodeStarted(task="alarm"), judged("fail"), EpisodeRetracted("i1")]))
    return ledger


@pytest.fixture
def connection(filled: Ledger) -> Iterator[Connection]:
    with reading(filled, (TASKS, POLICIES)) as connection:
        yield connection


def listed(connection: Connection, kind: Any, filters: Filters = ALL, **order: Any) -> list[dict[str, Any]]:
    return list(rows(connection, kind, filters, Order(**order)))


def test_a_task_has_the_rates_of_its_episodes(connection: Connection) -> None:
    alarm, mail = listed(connection, TASK_LIST)
    assert alarm.pop("last_position") > 0
    assert alarm == {
        "task": "alarm",
        "episodes": 5,
        "policies": 2,
        "groups": 2,
        "mixed": 1,
        "passed": 3,
        "failed": 1,
        "undecided": 1,
        "unverified": 0,
        "pass_rate": 0.75,
        "trials": 3,
        "pass_k": [pytest.approx((2 / 3 + 1) / 2), pytest.approx(1 / 3), 0.0],
        "steps": 2.2,
        "tokens": 220.0,
    }
    assert (mail["pass_rate"], mail["mixed"], mail["unverified"], mail["policies"]) == (0.0, 0, 1, 1)


def test_a_policy_has_the_rates_of_its_tasks(connection: Connection) -> None:
    first, second = listed(connection, POLICY_LIST)
    assert (first["policy"], first["episodes"], first["tasks"], first["pass_rate"]) == ("p1", 5, 2, 0.4)
    assert first["pass_k"] == [pytest.approx(1 / 3), pytest.approx(1 / 6), 0.0]
    assert (second["episodes"], second["tasks"], second["passed"], second["pass_k"]) == (3, 1, 2, [1.0])


def test_sorts_and_limits(connection: Connection) -> None:
    def names(**order: Any) -> list[str]:
        return [row["task"] for row in listed(connection, TASK_LIST, **order)]

    assert names() == ["alarm", "mail"]
    assert names(reverse=True) == ["mail", "alarm"]
    assert names(sort="rate") == ["mail", "alarm"]
    assert names(sort="episodes") == ["alarm", "mail"]
    assert names(sort="tokens") == ["alarm", "mail"]
    assert names(sort="latest", limit=1) == ["mail"]
    with pytest.raises(UsageError, match="cannot sort by 'size'"):
        names(sort="size")


def test_filters_choose_the_episodes_that_count(connection: Connection) -> None:
    (alarm,) = listed(connection, TASK_LIST, Filters(policy="p2"))
    assert (alarm["episodes"], alarm["passed"], alarm["groups"]) == (2, 1, 0)
    assert listed(connection, TASK_LIST, Filters(task="nothing")) == []
    (policy,) = listed(connection, POLICY_LIST, Filters(task="mail"))
    assert (policy["policy"], policy["failed"]) == ("p1", 2)


def test_an_empty_log_has_none(ledger: Ledger) -> None:
    with reading(ledger, (TASKS, POLICIES)) as connection:
        assert listed(connection, TASK_LIST) == listed(connection, POLICY_LIST) == []
