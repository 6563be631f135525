"""Given events of an episode, when `step` folds them, then one row per step."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.vocabulary import Payload
from core.vocabulary.contract import Clarify, Finish, UserReply
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded, ModelResponded
from eventlog.projection import fold
from eventlog.views.step import STEP
from tests.eventlog.samples import START, call, episode, failed, ok, stored, turn
from tests.eventlog.views.test_episode import payloads

START_ONLY = EpisodeStarted(task="alarm")


def rows(*given: Payload) -> list[dict[str, Any]]:
    names = [column.name for column in STEP.columns]
    return [dict(zip(names, values, strict=True)) for values in fold(STEP, stored(("episode/e1", given)))]


def test_a_step_says_what_was_called_and_what_became_of_it() -> None:
    first, second = rows(*episode(steps=2))
    assert first == {
        "episode": "e1",
        "step": 1,
        "first_version": 3,
        "last_version": 5,
        "started_at": START + 2_000_000,
        "tools": ["tool_1"],
        "calls": 1,
        "outcome": "ok",
        "errors": 0,
        "error_class": None,
        "ms": 45.0,
        "tokens": 110,
        "copied": False,
    }
    assert (second["outcome"], second["errors"], second["error_class"]) == ("error", 1, "not_found")


def test_parallel_calls_are_one_step_which_fails_if_one_of_them_does() -> None:
    (step,) = rows(turn(1), call(1, "a"), call(1, "b"), ok(1), failed(1, "timeout"))
    assert (step["tools"], step["calls"], step["outcome"], step["error_class"]) == (["a", "b"], 2, "error", "timeout")


def test_a_call_without_feedback_is_unanswered() -> None:
    (step,) = rows(turn(1), call(1, "a"), call(1, "b"), ok(1))
    assert step["outcome"] == "unanswered"


def test_a_step_that_only_speaks_or_finishes_has_no_outcome() -> None:
    steps = rows(turn(1), turn(2), ActionSubmitted(step=2, action=Finish(claim="done")))
    assert [step["outcome"] for step in steps] == [None, None]
    assert steps[1]["tools"] == ["Finish"]


def test_the_users_reply_answers_a_question_and_nothing_else() -> None:
    reply = FeedbackRecorded(step=1, feedback=UserReply(text="yes"))
    asked = ActionSubmitted(step=1, action=Clarify(question="sure?"))
    assert rows(call(1, "a"), reply)[0]["outcome"] == "unanswered"
    assert rows(asked, reply)[0]["outcome"] == "ok"


def test_late_feedback_belongs_to_the_step_of_its_action() -> None:
    first, second = rows(call(1, "a"), call(2, "b"), ok(2, action=2), ok(2, action=1))
    assert (first["outcome"], second["outcome"]) == ("ok", "ok")
    assert (first["last_version"], second["last_version"]) == (4, 3)


def test_copied_steps_are_marked() -> None:
    (step,) = rows(ModelResponded(step=1, copied=True))
    assert step["copied"] is True


def test_only_changed_steps_are_written_again() -> None:
    events = stored(("episode/e1", [START_ONLY, turn(1), call(1, "a"), ok(1), turn(2), call(2, "b"), ok(2)]))
    state = STEP.initial("episode/e1")
    for event in events:
        state = STEP.apply(state, event)
    assert [row[1] for row in STEP.rows(state, 4)] == [2]


@given(payloads, st.integers(0, 30))
def test_a_state_put_away_and_taken_up_again_folds_to_the_same_rows(chosen: list[Payload], at: int) -> None:
    whole, parts = STEP.initial("episode/e1"), STEP.initial("episode/e1")
    for event in stored(("episode/e1", [START_ONLY, *chosen])):
        whole = STEP.apply(whole, event)
        parts = STEP.apply(parts, event)
        if event.version == at:
            parts = STEP.load(STEP.dump(parts))
    assert list(STEP.rows(parts, 0)) == list(STEP.rows(whole, 0))
