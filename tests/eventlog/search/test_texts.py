"""What an event says, as it is searched."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import vocabulary
from core.vocabulary import BlobRef, Payload
from core.vocabulary.contract import (
    Clarify,
    ElementRef,
    ExecError,
    Finish,
    Observation,
    ToolCall,
    ToolResult,
    Ui,
    UserReply,
    Verification,
)
from core.vocabulary.episode import (
    ActionSubmitted,
    EpisodeStarted,
    FeedbackRecorded,
    MessageRecorded,
    ModelResponded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.search.texts import MAX_BLOB, texts
from tests.eventlog.samples import call, ok, origin, raw


def said(payload: Payload, stored: dict[str, str] | None = None) -> list[tuple[str, str]]:
    blobs = stored or {}
    return [tuple(text) for text in texts(type(payload).__name__, vocabulary.body(payload), blobs.get)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            call(1, "book", "c1", city="Paris", n=2, deep={"ok": True, "no": None}),
            ["book", "city: Paris", "n: 2", "deep:", "ok: true", "no"],
        ),
        (ActionSubmitted(1, ToolCall("t", raw(None), args_text="{oops")), ["t", "{oops"]),
        (
            ActionSubmitted(1, Ui("tap", target=ElementRef("e12"), text="hi")),
            ["tap", "kind: element", "ref: e12", "hi"],
        ),
        (ActionSubmitted(1, Clarify("which?")), ["which?"]),
        (ActionSubmitted(1, Finish("done", answer="yes")), ["done", "yes"]),
    ],
)
def test_an_action_is_its_name_and_arguments(payload: Payload, expected: list[str]) -> None:
    assert said(payload) == [("action", text) for text in expected]


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (ok(1, 'line one\n"two" \u0000 \u202e漢'), ['line one\n"two" \u0000 \u202e漢']),
        (ok(1, {"rows": [1, "x"]}), ["rows:"[:0] or "rows: 1", "rows: x"]),
        (FeedbackRecorded(1, ExecError("timeout", True, "none", message="too late")), ["timeout", "none", "too late"]),
        (FeedbackRecorded(1, UserReply("no")), ["no"]),
        (
            FeedbackRecorded(
                1, Observation([BlobRef("sha256:aa", 1, "image/png")], ["stale"], app="clock", text="7:00")
            ),
            ["stale", "clock", "7:00", "sha256:aa"],
        ),
    ],
)
def test_feedback_is_what_came_back(payload: Payload, expected: list[str]) -> None:
    assert said(payload) == [("feedback", text) for text in expected]


def test_messages_thoughts_and_notes_are_told_apart() -> None:
    parts = raw([{"type": "text", "text": "look"}, {"type": "image", "image": "sha256:aa"}])
    assert said(MessageRecorded("user", parts)) == [
        ("message", "look"),
        ("message", "type: image"),
        ("message", "image: sha256:aa"),
    ]
    assert said(MessageRecorded("user", raw("hi"), name="Ann")) == [("message", "hi"), ("other", "Ann")]
    assert said(MessageRecorded("assistant", raw(None))) == []
    turn = ModelResponded(1, content="I will", thought="Hm", model="m1", token_ids=[1, 2])
    assert said(turn) == [("thought", "Hm"), ("message", "I will"), ("other", "m1")]
    assert said(NoteAdded("odd", 3)) == [("note", "odd")]


def test_all_else_is_other_with_its_keys() -> None:
    assert (
        said(EpisodeStarted(task="t1", goal="go"))
        == [("other", "task: t1"), ("other", "goal: go"), ("other", "split: train")][:2]
    )
    judged = VerificationRecorded(Verification("fail"), "human", "twice")
    assert ("other", "why: twice") in said(judged)
    assert ("other", "where: index 0") in said(EpisodeStarted(origin=origin()))


def test_large_texts_are_read_from_the_blob_store() -> None:
    blob = BlobRef("sha256:aa", 70_000, "text/plain")
    stored = {"sha256:aa": "long"}
    assert said(ModelResponded(1, content=blob), stored) == [("message", "long")]
    assert said(FeedbackRecorded(1, ToolResult(raw({"out": blob}))), stored) == [("feedback", "out: long")]
    assert said(ModelResponded(1, content=blob)) == [("message", "sha256:aa")]
    huge = BlobRef("sha256:aa", MAX_BLOB + 1, "text/plain")
    assert said(ModelResponded(1, content=huge), stored) == [("message", "sha256:aa")]
    tree = BlobRef("sha256:aa", 9, "application/xml")
    assert said(FeedbackRecorded(1, Observation([tree])), stored) == [("feedback", "sha256:aa")]
    record = EpisodeStarted(origin=origin(record="aa"))
    assert "long" not in str(said(record, {"sha256:aa": "long"}))


@pytest.mark.parametrize(
    ("type_", "body"),
    [
        ("ActionSubmitted", b'{"action":7}'),
        ("FeedbackRecorded", b'{"feedback":[{"kind":"x"}]}'),
        ("FeedbackRecorded", b'{"feedback":{"blobs":[7]}}'),
        ("MessageRecorded", b"{}"),
        ("NoteAdded", b'{"texts":"a"}'),
        ("NoteAdded", b'{"open":{},"sealed":"eA=="}'),
        ("HologramShown", b'{"beam":{"address":7,"media_type":1}}'),
    ],
)
def test_what_has_another_shape_is_searched_as_it_is(type_: str, body: bytes) -> None:
    assert all(part == "other" for part, _ in texts(type_, body, lambda address: None))


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(
    st.sampled_from([*vocabulary.TYPES, "Unknown"]),
    st.dictionaries(st.sampled_from(["action", "feedback", "content", "text", "x"]), json),
)
def test_any_payload_has_texts(type_: str, payload: dict[str, Any]) -> None:
    for _, text in texts(type_, msgspec.json.encode(payload), lambda address: None):
        assert isinstance(text, str)
