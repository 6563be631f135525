"""The rules that find erroneous turns, and that marking again adds nothing."""

from typing import Any

import pytest
from msgspec import Raw

from core.vocabulary import Payload
from core.vocabulary.contract import ToolCall
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, ModelResponded, ToolSpec
from eventlog.ledger import Ledger
from learners.marking import REPEATED, SCHEMA, UNKNOWN, find, mark
from tests.eventlog import samples

SEND = ToolSpec(
    "send",
    parameters=samples.raw({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}),
)


def found(*payloads: Payload, tools: list[ToolSpec] | None = None) -> list[tuple[int, str]]:
    events = samples.stored(("episode/a", [EpisodeStarted(tools=tools), *payloads]))
    return [(one.step, one.rule) for one in find(events)]


def failing(step: int, class_: str = "not_found", retryable: bool = False, **args: Any) -> list[Payload]:
    answer = samples.failed(step, class_)
    if retryable:
        from msgspec.structs import replace

        answer = replace(answer, feedback=replace(answer.feedback, retryable=True))  # type: ignore[attr-defined]
    return [samples.turn(step), samples.call(step, "send", **args), answer]


def test_the_same_call_that_fails_again_marks_the_turn_that_repeats_it() -> None:
    assert found(*failing(1, to="Ann"), *failing(2, to="Bob"), *failing(3, to="Ann"), *failing(4, to="Ann")) == [
        (3, REPEATED),
        (4, REPEATED),
    ]


def test_arguments_are_the_same_however_they_are_written() -> None:
    one = ActionSubmitted(1, ToolCall("send", Raw(b'{"a": 1, "b": [2]}')))
    other = ActionSubmitted(2, ToolCall("send", Raw(b'{"b":[2],"a":1}')))
    assert found(one, samples.failed(1), other, samples.failed(2)) == [(2, REPEATED)]


@pytest.mark.parametrize("class_", ["timeout", "transient", "injected", "transport_lost", "backend_bug", "lease_lost"])
def test_a_failure_of_the_environments_is_no_turns_error(class_: str) -> None:
    assert found(*failing(1, class_, to="Ann"), *failing(2, class_, to="Ann")) == []


def test_a_retry_that_was_allowed_or_worked_is_no_error() -> None:
    assert found(*failing(1, "conflict", True, to="Ann"), *failing(2, "conflict", True, to="Ann")) == []
    worked = [samples.turn(2), samples.call(2, "send", to="Ann"), samples.ok(2)]
    assert found(*failing(1, to="Ann"), *worked) == []


def test_of_several_answers_to_a_call_the_last_counts() -> None:
    lost = [samples.turn(1), samples.call(1, "send", to="Ann"), samples.failed(1, action=3), samples.ok(1, action=3)]
    assert found(*lost, *failing(2, to="Ann")) == []


def test_arguments_that_do_not_fit_the_schema() -> None:
    assert found(*failing(1, "schema", to=3)) == [(1, SCHEMA)]
    accepted = [samples.turn(1), samples.call(1, "send", to=3), samples.ok(1)]
    assert found(*accepted, tools=[SEND]) == [(1, SCHEMA)]
    assert found(*accepted) == []
    assert found(samples.turn(1), samples.call(1, "send", to="Ann"), samples.ok(1), tools=[SEND]) == []
    no_json = ActionSubmitted(1, ToolCall("send", Raw(b"null"), args_text='{"to": '))
    assert found(no_json) == [(1, SCHEMA)]


def test_a_tool_whose_own_schema_is_none_says_nothing() -> None:
    broken = ToolSpec("send", parameters=samples.raw({"type": "dict"}))
    assert found(samples.turn(1), samples.call(1, "send", to=3), samples.ok(1), tools=[broken]) == []


def test_a_tool_that_is_not_there() -> None:
    assert found(*failing(1, "unknown_tool", to="Ann")) == [(1, UNKNOWN)]
    unanswered = [samples.turn(1), samples.call(1, "sned", to="Ann")]
    assert found(*unanswered, tools=[SEND]) == [(1, UNKNOWN)]
    assert found(*unanswered) == []
    answered = [*unanswered, samples.ok(1)]  # it came with a skill
    assert found(*answered, tools=[SEND]) == []


def test_copied_turns_are_not_marked() -> None:
    copied = [ModelResponded(1, copied=True), *failing(1, "schema", to="Ann")[1:]]
    assert found(*copied) == []


def test_one_mark_for_a_step_and_a_rule() -> None:
    parallel = [samples.turn(1), samples.call(1, "send", "c1", to=1), samples.call(1, "send", "c2", to=2)]
    answers = [samples.failed(1, "schema", call_id="c1"), samples.failed(1, "schema", call_id="c2")]
    assert found(*parallel, *answers) == [(1, SCHEMA)]


def test_marking_again_adds_nothing_and_a_dry_run_nothing_at_all(ledger: Ledger) -> None:
    ledger.append_many(samples.events("episode/a", [EpisodeStarted(), *failing(1, "schema", to=3)]))
    ledger.append_many(samples.events("episode/b", samples.episode(verdict="pass")))
    streams = ["episode/a", "episode/b"]
    before = ledger.head().position
    (dry,) = mark(ledger, streams, dry_run=True)
    assert (ledger.head().position, dry.known) == (before, False)
    assert [one.known for one in mark(ledger, streams)] == [False]
    after = ledger.head().position
    assert after == before + 1
    (event,) = ledger.read("episode/a", after=4)
    assert (event.event_id, event.type, event.actor) == (dry.event_id, "TurnMarked", "curator")
    assert [one.known for one in mark(ledger, streams)] == [True]
    assert ledger.head().position == after
