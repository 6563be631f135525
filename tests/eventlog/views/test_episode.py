"""Given events of an episode, when `episode` folds them, then its row."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.vocabulary import TYPES, Payload, catalogue
from core.vocabulary.contract import BudgetExhausted, Finish, Finished, Ui, Verification
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    Usage,
    VerificationRecorded,
)
from eventlog.projection import fold
from eventlog.views import episode as module
from eventlog.views import step as step_module
from eventlog.views.episode import EPISODE
from eventlog.views.step import STEP
from tests.eventlog.samples import START, call, episode, failed, judged, ok, origin, raw, stored, turn


def row(*payloads: Payload) -> dict[str, Any]:
    (values,) = fold(EPISODE, stored(("episode/e1", payloads)))
    return dict(zip([column.name for column in EPISODE.columns], values, strict=True))


START_ONLY = EpisodeStarted(task="alarm")


def test_a_row_says_what_a_list_shows() -> None:
    found = row(*episode(verdict="fail", steps=2, origin=origin(generation=2)))
    assert found.pop("committed_at") > START
    assert found == {
        "episode": "e1",
        "task": "alarm",
        "source": "tau-bench",
        "policy": "planner-1",
        "split": "train",
        "started_at": START,
        "ended_at": START + 8_000_000,
        "end": "finished",
        "verdict": "fail",
        "reward": 0.0,
        "steps": 2,
        "events": 10,
        "tokens": 220,
        "failing_tool": "tool_2",
        "position": 1,
        "last_position": 10,
        "goal": "set the alarm",
        "group": None,
        "rollout": None,
        "environment": None,
        "import_id": "i1",
        "record": "sha256:" + "0" * 64,
        "generation": 2,
        "retracted": False,
    }


def test_an_episode_that_is_running_has_no_end_and_is_unverified() -> None:
    found = row(START_ONLY, turn(1), call(1, "look"))
    assert (found["end"], found["ended_at"], found["verdict"], found["reward"]) == (None, None, "unverified", None)
    assert (found["source"], found["steps"], found["failing_tool"]) == ("live", 1, None)


@pytest.mark.parametrize(
    ("judgements", "verdict"),
    [
        ([("fail", "machine"), ("pass", "machine")], "pass"),
        ([("pass", "import"), ("fail", "machine")], "fail"),
        ([("fail", "human"), ("pass", "machine")], "fail"),
        ([("pass", "machine"), ("fail", "human"), ("pass", "machine"), ("pass", "import")], "fail"),
        ([("fail", "human"), ("inconclusive", "human")], "inconclusive"),
        ([("vacuous", "machine")], "vacuous"),
        ([("error", "machine")], "error"),
    ],
)
def test_the_latest_verdict_stands_unless_a_human_has_judged(judgements: list[tuple[str, str]], verdict: str) -> None:
    assert row(START_ONLY, *[judged(v, source=s) for v, s in judgements])["verdict"] == verdict


def test_a_humans_verdict_leaves_the_recorded_reward_and_a_later_machine_does_not_change_it() -> None:
    found = row(START_ONLY, judged("fail", reward=0.0), judged("pass", source="human"), judged("fail", reward=0.5))
    assert (found["verdict"], found["reward"]) == ("pass", 0.0)


def test_the_failing_tool_is_that_of_the_last_failed_call() -> None:
    calls = [call(1, "a", "x"), failed(1, action=2), call(2, "b", "x"), failed(2, action=4), call(3, "c", "x")]
    assert row(START_ONLY, *calls, ok(3, action=6))["failing_tool"] == "b"


def test_a_reused_call_id_means_the_latest_unanswered_call() -> None:
    calls = [call(1, "a", "x"), ok(1, call_id="x"), call(2, "b", "x"), failed(2, call_id="x")]
    assert row(START_ONLY, *calls)["failing_tool"] == "b"


def test_feedback_that_names_nothing_answers_the_steps_oldest_call() -> None:
    assert row(START_ONLY, call(1, "a"), call(1, "b"), failed(1), ok(1))["failing_tool"] == "a"


def test_a_touch_fails_by_its_name() -> None:
    tap = ActionSubmitted(step=1, action=Ui(op="tap"))
    assert row(START_ONLY, tap, failed(1, "timeout", action=2))["failing_tool"] == "tap"


def test_copied_turns_count_neither_as_steps_nor_as_tokens() -> None:
    usage = Usage(prompt_tokens=5, completion_tokens=2)
    copied = [ModelResponded(step=n, usage=usage, copied=True) for n in (1, 2)]
    found = row(START_ONLY, *copied, call(2, "a"), ModelResponded(step=3, usage=usage))
    assert (found["steps"], found["tokens"]) == (1, 7)


def test_tokens_that_nobody_counted_are_unknown() -> None:
    assert row(START_ONLY, turn(1, tokens=None))["tokens"] is None
    assert row(START_ONLY, ModelResponded(step=1, usage=Usage(completion_tokens=3)))["tokens"] == 3


def test_an_exhausted_budget_says_which() -> None:
    assert row(START_ONLY, EpisodeEnded(end=BudgetExhausted(dimension="steps")))["end"] == "budget(steps)"
    assert row(START_ONLY, EpisodeEnded(end=Finished()))["end"] == "finished"


def test_parallel_calls_share_their_step() -> None:
    assert row(START_ONLY, turn(1), call(1, "a"), call(1, "b"), ok(1), ok(1))["steps"] == 1


def test_actions_without_a_model_turn_are_steps_too() -> None:
    assert row(START_ONLY, call(1, "a"), call(2, "b"), ActionSubmitted(step=3, action=Finish(claim="x")))["steps"] == 3


def test_a_retracted_episode_says_so() -> None:
    assert row(START_ONLY, EpisodeRetracted(import_id="i1"))["retracted"] is True


def test_what_comes_before_the_start_does_not_hide_it() -> None:
    found = row(NoteAdded(text="early"), START_ONLY)
    assert (found["task"], found["position"], found["events"]) == ("alarm", 2, 2)


def test_long_texts_are_cut_to_what_an_index_can_hold() -> None:
    found = row(EpisodeStarted(task="t" * 100_000, goal="g" * 100_000))
    assert (len(found["task"]), len(found["goal"])) == (500, 120)


def test_unknown_types_and_fields_are_passed_over() -> None:
    assert row(START_ONLY, MessageRecorded(role="user", content=raw("hi"), extra=raw({"a": 1})))["events"] == 2


def test_other_streams_have_no_row() -> None:
    assert list(fold(EPISODE, stored(("import/i1", [START_ONLY])))) == []


def test_the_fold_reads_the_current_schema_of_each_type() -> None:
    for handlers in (module._HANDLERS, step_module._HANDLERS):
        assert {TYPES[name].schema_number for name in handlers} == {1}


def test_the_folds_read_the_example_of_every_type() -> None:
    (template,) = stored(("episode/e1", [START_ONLY]))
    for entry in catalogue():
        body = msgspec.json.encode(entry["example"]["payload"])
        event = msgspec.structs.replace(template, type=entry["type"], body=body)
        EPISODE.apply(EPISODE.initial("episode/e1"), event)
        STEP.apply(STEP.initial("episode/e1"), event)


payloads = st.lists(
    st.one_of(
        st.builds(turn, st.integers(1, 4)),
        st.builds(call, st.integers(1, 4), st.sampled_from(["a", "b"]), st.sampled_from([None, "x", "y"])),
        st.builds(ok, st.integers(1, 4), call_id=st.sampled_from([None, "x"])),
        st.builds(failed, st.integers(1, 4), action=st.sampled_from([None, 2, 3])),
        st.builds(judged, st.sampled_from(["pass", "fail"]), source=st.sampled_from(["human", "machine"])),
        st.just(EpisodeEnded(end=Finished())),
        st.just(VerificationRecorded(verification=Verification(verdict="pass", reward=1.0), source="import")),
    ),
    max_size=30,
)


@given(payloads, st.integers(0, 30))
def test_a_state_put_away_and_taken_up_again_folds_to_the_same_row(chosen: list[Payload], at: int) -> None:
    events = stored(("episode/e1", [START_ONLY, *chosen]))
    whole = EPISODE.initial("episode/e1")
    parts = EPISODE.initial("episode/e1")
    for event in events:
        whole = EPISODE.apply(whole, event)
        parts = EPISODE.apply(parts, event)
        if event.version == at:
            parts = EPISODE.load(EPISODE.dump(parts))
    assert list(EPISODE.rows(parts, 0)) == list(EPISODE.rows(whole, 0))


def test_a_payload_of_another_shape_raises() -> None:
    (event,) = stored(("episode/e1", [START_ONLY]))
    broken = msgspec.structs.replace(event, body=b'{"task":5}')
    with pytest.raises(msgspec.ValidationError):
        EPISODE.apply(EPISODE.initial("episode/e1"), broken)


def test_a_payload_of_a_newer_schema_raises() -> None:
    (event,) = stored(("episode/e1", [START_ONLY]))
    with pytest.raises(ValueError, match="newer"):
        EPISODE.apply(EPISODE.initial("episode/e1"), msgspec.structs.replace(event, schema=2))
