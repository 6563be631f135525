"""Given an episode's events, then the lines that a person reads."""

import msgspec
import pytest

from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import (
    Clarify,
    EnvNotice,
    ExecError,
    Observation,
    Point,
    ToolCall,
    Ui,
    UserReply,
)
from core.vocabulary.episode import (
    ActionDispatched,
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
)
from eventlog import timeline, wording
from eventlog.wording import Line
from tests.eventlog.samples import call, episode, failed, judged, ok, raw, stored, turn


def lines(*payloads: Payload, first: int = 1) -> list[Line]:
    return list(timeline.lines(stored(("episode/e1", payloads)), first=first))


def actions(*payloads: Payload) -> list[str]:
    return [line.action for line in lines(*payloads)]


def test_an_episode_reads_from_start_to_verdict() -> None:
    assert [(line.version, line.step, line.action, line.outcome, line.answer) for line in lines(*episode(steps=1))] == [
        (1, None, 'started task alarm policy planner-1 "set the alarm"', None, None),
        (2, None, 'user: "please, the alarm"', None, None),
        (3, 1, 'model: "I will look."', None, None),
        (4, 1, 'tool_1(at="07:00")', 'error not_found "Error: no such thing"', 5),
        (6, None, "ended finished", None, None),
        (7, None, "judged by machine, 0 of 1 checks pass, reward 0", None, None),
    ]


def test_numbers_and_marks_stand_where_they_belong() -> None:
    _, _, model, action, _, verdict = lines(*episode(steps=1))
    assert (model.ms, model.tokens, model.failed) == (40.0, 110, False)
    assert (action.failed, verdict.failed, verdict.verdict) == (True, True, "fail")
    assert verdict.checks == ['check goal (state): fail {"expected":1,"actual":0}']


def test_from_a_version_on_feedback_without_its_action_has_a_line_of_its_own() -> None:
    payloads = [call(1, "a"), turn(2), ok(1, action=1)]
    assert [line.version for line in lines(*payloads)] == [1, 2]
    assert [(line.version, line.action) for line in lines(*payloads, first=2)] == [
        (2, 'model: "I will look."'),
        (3, 'ok "done"'),
    ]


def test_feedback_finds_its_call_among_parallel_and_reused_ones() -> None:
    first, second, third = lines(
        call(1, "a", "x"),
        call(1, "b", "y"),
        ok(1, "B", call_id="y"),
        ok(1, "A", call_id="x"),
        call(2, "c", "x"),
    )
    assert (first.outcome, second.outcome, third.outcome) == ('ok "A"', 'ok "B"', None)


def test_an_action_that_was_only_dispatched_says_so() -> None:
    (line,) = lines(call(1, "a", "x"), ActionDispatched(step=1, call_id="x"))
    assert line.outcome == "dispatched, no feedback"
    (line,) = lines(call(1, "a", "x"), ActionDispatched(step=1, call_id="x"), ok(1, call_id="x"))
    assert line.outcome == 'ok "done"'


def test_long_values_and_thoughts_are_folded_and_say_by_how_much() -> None:
    (model,) = actions(ModelResponded(step=1, content="c" * 1_000, thought="t" * 100))
    assert model == f'model: (thought "{"t" * 60}… (+40)") "{"c" * 160}… (+840)"'
    (action,) = actions(call(1, "a", text="x" * 2_000))
    assert action == f'a(text="{"x" * 60}… (+1,940)")'


def test_arguments_that_were_no_json_are_shown_as_they_came() -> None:
    call = ToolCall(tool="a", args=msgspec.Raw(b"null"), args_text='{"broken')
    assert actions(ActionSubmitted(step=1, action=call)) == ['a("{"broken")']


def test_screens_are_named_by_their_blobs() -> None:
    shot = BlobRef(address="sha256:" + "ab" * 32, size=20_480, media_type="image/png")
    seen = Observation(blobs=[shot], flags=["stale"], app="clock")
    assert actions(FeedbackRecorded(step=1, feedback=seen)) == [
        f"screen clock [image/png sha256:{'ab' * 32} 20,480 bytes] !stale"
    ]


def test_texts_in_the_blob_store_are_named_by_their_address() -> None:
    text = {"address": "sha256:" + "cd" * 32, "size": 70_000, "media_type": "text/plain"}
    (line,) = actions(MessageRecorded(role="user", content=raw(text)))
    assert line == f"user: [text/plain sha256:{'cd' * 32} 70,000 bytes]"


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Ui(op="tap", target=Point(x=0, y=10.5)), "tap (0, 10.5)"),
        (Ui(op="tap", target=Point(x=1, y=2, space="0-1000")), "tap (1, 2 in 0-1000)"),
        (Ui(op="text", text="07:00"), 'text "07:00"'),
        (Ui(op="scroll", direction="down"), "scroll down"),
        (Clarify(question="which day?"), 'Clarify question="which day?"'),
    ],
)
def test_other_actions_read_by_what_they_do(action: Ui | Clarify, text: str) -> None:
    assert actions(ActionSubmitted(step=1, action=action)) == [text]


@pytest.mark.parametrize(
    ("feedback", "text"),
    [
        (UserReply(text="yes"), 'user: "yes"'),
        (EnvNotice(source="timer", text="ding"), 'notice from timer: "ding"'),
        (
            ExecError(class_="transport_lost", retryable=True, effect="unknown"),
            "error transport_lost (effect unknown)",
        ),
    ],
)
def test_other_feedback_reads_by_what_it_says(feedback: UserReply, text: str) -> None:
    assert actions(FeedbackRecorded(step=1, feedback=feedback)) == [text]


def test_messages_of_parts_and_of_nothing() -> None:
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert actions(
        MessageRecorded(role="user", content=raw(parts)), MessageRecorded(role="tool", content=raw(None))
    ) == [
        'user: "look" {"type":"image_url","image_url":{"url":"x"}}',
        "tool: (no text)",
    ]


def test_notes_and_other_judges() -> None:
    assert actions(EpisodeStarted(), NoteAdded(text="odd", target=1), judged("pass", source="human")) == [
        "started",
        'note on @1: "odd"',
        "judged by human, 1 of 1 checks pass",
    ]


def test_what_cannot_be_read_is_shown_as_it_is_stored() -> None:
    (event,) = stored(("episode/e1", [failed(1)]))
    new = msgspec.structs.replace(event, type="HologramShown", body=b'{"step":2,"beam":[1]}')
    odd = msgspec.structs.replace(event, body=b'{"step":"two","feedback":[]}')
    assert [(line.action, line.step) for line in timeline.lines([new, odd])] == [
        ('HologramShown {"step":2,"beam":[1]}', 2),
        ('FeedbackRecorded {"step":"two","feedback":[]}', None),
    ]


def test_a_value_in_full_keeps_every_line_of_a_text() -> None:
    value = {"a": {"b": [1, {"c": "x\ny"}], "d": []}, "e": "plain"}
    assert list(wording.unfolded(value)) == [
        "a:",
        "  b:",
        "    - 1",
        "    -",
        "      c:",
        "        x",
        "        y",
        "  d: []",
        "e: plain",
    ]
