"""Given calls of episodes, when `tool_use` and `tool` fold them, then how often, with what outcome, how fast."""

import statistics
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.vocabulary import Payload
from core.vocabulary.contract import Finish, ToolResult, Ui
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeRetracted,
    EpisodeStarted,
    FeedbackRecorded,
    ModelResponded,
)
from eventlog.database import Connection
from eventlog.ledger import Ledger
from eventlog.projection import fold
from eventlog.views import TOOLS, reading
from eventlog.views.listing import Filters
from eventlog.views.summaries import TOOL_LIST, Order, rows
from eventlog.views.tool import TOOL
from eventlog.views.tool_use import TOOL_USE, bucket, middle
from tests.eventlog.samples import call, events, failed, raw, stored, turn
from tests.eventlog.views.test_episode import payloads

START_ONLY = EpisodeStarted(task="alarm")


def answer(step: int, ms: float | None = None) -> FeedbackRecorded:
    return FeedbackRecorded(step=step, feedback=ToolResult(value=raw(1)), latency_ms=ms)


def uses(*given: Payload) -> dict[str, dict[str, Any]]:
    names = [column.name for column in TOOL_USE.columns]
    found = [dict(zip(names, row, strict=True)) for row in fold(TOOL_USE, stored(("episode/e1", given)))]
    return {row["tool"]: row for row in found}


def test_a_use_counts_calls_answers_errors_and_time() -> None:
    found = uses(
        turn(1), call(1, "a"), answer(1, 3.5), call(2, "a"), failed(2, "timeout"), call(3, "a"), failed(3), call(4, "b")
    )
    assert found["a"] == {
        "episode": "e1",
        "tool": "a",
        "calls": 3,
        "answers": 3,
        "errors": 2,
        "error_classes": ["not_found", "timeout"],
        "error_counts": [1, 1],
        "timed": 1,
        "us": 3500,
        "most_us": 3500,
        "buckets": [bucket(3500)],
        "bucket_counts": [1],
        "retracted": False,
    }
    assert (found["b"]["calls"], found["b"]["answers"]) == (1, 0)


def test_a_touch_counts_by_its_op_and_the_end_not_at_all() -> None:
    touch = ActionSubmitted(step=1, action=Ui(op="tap"))
    assert list(uses(touch, ActionSubmitted(step=2, action=Finish(claim="done")))) == ["tap"]


def test_copied_calls_do_not_count() -> None:
    found = uses(ModelResponded(step=1, copied=True), call(1, "a"), answer(1), turn(2), call(2, "a"), answer(2))
    assert (found["a"]["calls"], found["a"]["answers"]) == (1, 1)


def test_a_retraction_changes_every_row() -> None:
    state = TOOL_USE.initial("episode/e1")
    for event in stored(("episode/e1", [call(1, "a"), answer(1), call(2, "b"), EpisodeRetracted("i1")])):
        state = TOOL_USE.apply(state, event)
    assert [row[1] for row in TOOL_USE.rows(state, 2)] == ["a", "b"]
    assert [row[1] for row in TOOL_USE.rows(state, 4)] == []
    assert all(row[-1] for row in TOOL_USE.rows(state, 0))


@given(payloads, st.integers(0, 30))
def test_a_state_put_away_and_taken_up_again_folds_to_the_same_rows(chosen: list[Payload], at: int) -> None:
    whole, parts = TOOL_USE.initial("episode/e1"), TOOL_USE.initial("episode/e1")
    for event in stored(("episode/e1", [START_ONLY, *chosen])):
        whole = TOOL_USE.apply(whole, event)
        parts = TOOL_USE.apply(parts, event)
        if event.version == at:
            parts = TOOL_USE.load(TOOL_USE.dump(parts))
    assert list(TOOL_USE.rows(parts, 0)) == list(TOOL_USE.rows(whole, 0))


@given(st.integers(1, 2**52))
def test_the_middle_of_a_bucket_is_near_all_that_is_in_it(us: int) -> None:
    assert abs(middle(bucket(us)) - us) <= 0.032 * us
    assert bucket(us) <= bucket(us + 1)


def test_times_that_no_clock_gives_are_kept_within_bounds() -> None:
    found = uses(call(1, "a"), answer(1, -5.0), call(2, "a"), answer(2, 1e300))
    assert (found["a"]["us"], found["a"]["most_us"], found["a"]["timed"]) == (2**52, 2**52, 2)


TIMES = [float(ms) for ms in range(1, 101)]


@pytest.fixture
def connection(ledger: Ledger) -> Iterator[Connection]:
    for i in range(10):
        given: list[Payload] = [EpisodeStarted(task="alarm", policy=f"p{i % 2}")]
        for step, ms in enumerate(TIMES[i::10], 1):
            given += [call(step, "slow"), answer(step, ms)]
        given += [call(20, "broken"), failed(20, "timeout"), call(21, "broken"), failed(21)]
        ledger.append_many(events(f"episode/e{i}", given))
    ledger.append_many(
        events("episode/gone", [EpisodeStarted(), call(1, "gone"), call(2, "slow"), EpisodeRetracted("i1")])
    )
    with reading(ledger, (TOOLS,)) as connection:
        yield connection


def test_a_tool_is_what_all_episodes_say_of_it(connection: Connection) -> None:
    broken, slow = rows(connection, TOOL_LIST, Filters(), Order("tool"))
    assert broken == {
        "tool": "broken",
        "episodes": 10,
        "calls": 20,
        "answers": 20,
        "errors": 20,
        "error_rate": 1.0,
        "classes": {"not_found": 10, "timeout": 10},
        "mean_ms": None,
        "p50_ms": None,
        "p95_ms": None,
        "max_ms": None,
    }
    assert (slow["calls"], slow["error_rate"], slow["max_ms"]) == (100, 0.0, 100.0)
    assert slow["mean_ms"] == statistics.fmean(TIMES)
    assert slow["p50_ms"] == pytest.approx(50, rel=0.032)
    assert slow["p95_ms"] == pytest.approx(95, rel=0.032)


def test_filters_choose_the_episodes_that_count(ledger: Ledger) -> None:
    test = {"policy": "p0"}
    for i in range(4):
        given: list[Payload] = [EpisodeStarted(policy=f"p{i % 2}"), call(1, "a"), answer(1, float(i))]
        ledger.append_many(events(f"episode/e{i}", given))
    from eventlog.views import EPISODES

    with reading(ledger, (EPISODES, TOOLS)) as connection:
        (row,) = rows(connection, TOOL_LIST, Filters(**test), Order())  # type: ignore[arg-type]
        assert (row["episodes"], row["max_ms"]) == (2, 2.0)
        assert list(rows(connection, TOOL_LIST, Filters(policy="it's % nobody"), Order())) == []
    with reading(ledger, (EPISODES, TOOLS), as_of=3) as connection:
        (row,) = rows(connection, TOOL_LIST, Filters(**test), Order())  # type: ignore[arg-type]
        assert row["episodes"] == 1


def test_sums_that_no_honest_log_has_break_nothing(ledger: Ledger) -> None:
    for i in range(3000):
        ledger.append_many(events(f"episode/e{i}", [call(1, "a"), answer(1, 1e300)]))
        if i == 20:
            break
    with ledger.reader.borrow() as connection:
        from eventlog.projection.runner import catch_up

        catch_up(ledger, connection, [TOOL_USE, TOOL])
        connection.execute('UPDATE trajlog_view."tool_use__v1" SET us = 9223372036854775807')
        connection.execute("UPDATE trajlog.projection SET position = 0, seal = NULL WHERE name = 'tool'")
        catch_up(ledger, connection, [TOOL_USE, TOOL])
        assert connection.execute("SELECT calls FROM trajlog_view.tool").fetchone() == (21,)
