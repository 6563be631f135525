"""Two episodes, aligned call by call."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from core.event import StoredEvent
from core.vocabulary import Payload
from core.vocabulary.contract import Finish, Observation, Point, ToolCall, ToolResult, Ui
from core.vocabulary.episode import ActionSubmitted, FeedbackRecorded, ModelResponded
from eventlog.comparison import Comparison, Difference, Place, Side, compare
from eventlog.inmemory import InMemoryLog
from eventlog.writer import Writer
from tests.eventlog.samples import call, events, failed, ok, raw, stored


def compared(a: Sequence[Payload], b: Sequence[Payload], *masks: str, **sides: Any) -> Comparison:
    left = Side("a", **{name: pair[0] for name, pair in sides.items()})
    right = Side("b", **{name: pair[1] for name, pair in sides.items()})
    return compare((left, stored(("episode/a", a))), (right, stored(("episode/b", b))), masks)


def kinds(found: Comparison) -> list[tuple[str, str]]:
    return [(pair.kind, pair.name) for pair in found.pairs]


LOOK = [call(1, "look", at="home"), ok(1, "a room")]
OPEN = [call(2, "open", what="door"), ok(2, "open")]
LEAVE = [call(3, "leave"), ok(3)]


def test_the_same_calls_and_answers_are_the_same() -> None:
    found = compared([*LOOK, *OPEN], [*LOOK, *OPEN])
    assert (found.differs, found.first_divergence, found.shared) == ([], None, 2)
    assert found.pairs[1].a == Place(3, 2, 4)


def test_a_call_more_shifts_nothing() -> None:
    found = compared([*LOOK, *LEAVE], [*LOOK, *OPEN, *LEAVE])
    assert kinds(found) == [("same", "look"), ("only_b", "open"), ("same", "leave")]
    assert (found.first_divergence, found.shared, found.a.calls, found.b.calls) == (1, 2, 2, 3)
    assert (found.pairs[1].a, found.pairs[1].b) == (None, Place(3, 2, 4))


def test_calls_of_one_name_are_compared_by_their_arguments() -> None:
    found = compared([call(1, "open", what="door", how=1), ok(1)], [call(1, "open", what="window", how=1.0), ok(1)])
    assert kinds(found) == [("arguments", "open")]
    assert found.pairs[0].arguments == [Difference("$.what", "door", "window")]
    assert found.shared == 0


def test_the_same_call_may_be_answered_otherwise() -> None:
    found = compared([*LOOK[:1], failed(1)], LOOK)
    assert kinds(found) == [("feedback", "look")]
    assert "$.kind" in [difference.path for difference in found.pairs[0].feedback]


def test_an_answer_that_is_missing_differs_from_any() -> None:
    (pair,) = compared(LOOK[:1], LOOK).pairs
    assert (pair.kind, pair.a, pair.feedback[0].absent) == ("feedback", Place(1, 1, None), "a")


def test_how_an_answer_was_measured_does_not_count() -> None:
    def answer(clock: str, ms: float) -> FeedbackRecorded:
        return FeedbackRecorded(1, ToolResult(raw("a room"), clock=clock, cost=ms), latency_ms=ms)

    assert (
        compared([*LOOK[:1], answer("2026-01-01T00:00:00Z", 1)], [*LOOK[:1], answer("2026-02-02T00:00:00Z", 9)]).differs
        == []
    )


def test_states_are_compared_where_both_are_known() -> None:
    def answer(state: str | None) -> FeedbackRecorded:
        return FeedbackRecorded(1, ToolResult(raw("a room")), state_after=state)

    assert kinds(compared([*LOOK[:1], answer("aa")], [*LOOK[:1], answer("bb")])) == [("state", "look")]
    assert kinds(compared([*LOOK[:1], answer("aa")], [*LOOK[:1], answer(None)])) == [("same", "look")]


def test_masks_hide_times_and_ids() -> None:
    a = [call(1, "look", at="2026-01-02T03:04:05Z"), ok(1, "id 018f3c2e-7b1a-7c3d-9e4f-001122334455")]
    b = [call(1, "look", at="2026-01-02T03:04:06Z"), ok(1, "id 118f3c2e-7b1a-7c3d-9e4f-001122334455")]
    assert kinds(compared(a, b)) == [("arguments", "look")]
    assert kinds(compared(a, b, "time")) == [("feedback", "look")]
    assert compared(a, b, "time", "ids").differs == []


def test_ends_and_verdicts_are_compared() -> None:
    found = compared(LOOK, LOOK, end=("finished", "finished"), verdict=("fail", "pass"))
    assert (found.differs, found.first_divergence) == (["verdict"], None)
    assert compared(LOOK, [], end=("finished", "budget(steps)"), verdict=("fail", "fail")).differs == ["calls", "end"]


def test_without_any_call_there_is_nothing_to_part_over() -> None:
    found = compared([], [])
    assert (found.differs, found.pairs, found.shared) == ([], [], 0)
    assert kinds(compared([], LOOK)) == [("only_b", "look")]


def test_touches_are_calls_too() -> None:
    def tap(x: float) -> ActionSubmitted:
        return ActionSubmitted(1, Ui("tap", target=Point(x, 5)))

    found = compared([tap(0)], [tap(10)])
    assert kinds(found) == [("arguments", "tap")]
    assert found.pairs[0].arguments == [Difference("$.target.x", 0.0, 10.0)]
    assert kinds(compared([tap(0)], [ActionSubmitted(1, Finish("done"))])) == [("only_a", "tap"), ("only_b", "Finish")]


def test_parallel_calls_of_one_step_are_told_apart_though_their_ids_repeat() -> None:
    a = [
        call(1, "look", "c1", at="home"),
        call(1, "look", "c1", at="work"),
        ok(1, "home", action=1, call_id="c1"),
        ok(1, "work", action=2, call_id="c1"),
    ]
    found = compared(a, a)
    assert [(pair.a and pair.a.answer) for pair in found.pairs] == [3, 4]


def test_copied_context_is_not_among_the_calls() -> None:
    copied = ModelResponded(1, "again", copied=True)
    assert kinds(compared([copied, *LOOK, *OPEN], OPEN)) == [("same", "open")]


def test_what_nothing_answers_and_what_nobody_asked() -> None:
    seen = FeedbackRecorded(1, Observation(text="home"))
    assert compared([seen], []).differs == []
    (pair,) = compared([ActionSubmitted(1, Finish("done"))], [ActionSubmitted(1, Finish("done"))]).pairs
    assert pair.kind == "same"


def test_arguments_that_were_no_json_are_compared_as_text() -> None:
    a, b = (ActionSubmitted(1, ToolCall("t", raw(None), args_text=text)) for text in ("{oops", "{oops!"))
    assert compared([a], [b]).pairs[0].arguments == [Difference("$", "{oops", "{oops!")]


@pytest.mark.parametrize(
    "body", [b"{}", b'{"step":1,"action":7}', b'{"step":"x","action":{"kind":"Ui"}}', b'{"action":{}}']
)
def test_what_cannot_be_read_is_passed_over(body: bytes) -> None:
    log = InMemoryLog()
    log.append(Writer("w").raw("episode/a", "ActionSubmitted", body))
    log.append_many(events("episode/a", LOOK))
    found = compare((Side("a"), list(log.read_all())), (Side("b"), stored(("episode/b", LOOK))))
    assert (found.differs, found.a.calls) == ([], 1)


def test_five_thousand_calls_are_compared() -> None:
    def episode(seed: int) -> list[StoredEvent]:
        payloads: list[Payload] = []
        for step in range(1, 5_001):
            payloads += [call(step, f"tool_{step % 7}", n=step if step % 50 else step * seed), ok(step)]
        return stored(("episode/a", payloads))

    found = compare((Side("a"), episode(1)), (Side("b"), episode(2)))
    assert (found.shared, found.first_divergence, len(found.pairs)) == (4_900, 49, 5_000)


def test_the_json_is_what_is_documented() -> None:
    found = msgspec.json.decode(
        msgspec.json.encode(compared(LOOK, [*LOOK[:1], ok(1, "a hall")], verdict=("fail", "pass")))
    )
    assert found == {
        "a": {"episode": "a", "task": None, "end": None, "verdict": "fail", "calls": 1},
        "b": {"episode": "b", "task": None, "end": None, "verdict": "pass", "calls": 1},
        "differs": ["calls", "verdict"],
        "first_divergence": 0,
        "shared": 1,
        "masks": [],
        "pairs": [
            {
                "kind": "feedback",
                "name": "look",
                "a": {"version": 1, "step": 1, "answer": 2},
                "b": {"version": 1, "step": 1, "answer": 2},
                "arguments": [],
                "feedback": [{"path": "$.value", "a": "a room", "b": "a hall"}],
                "state": None,
            }
        ],
    }
