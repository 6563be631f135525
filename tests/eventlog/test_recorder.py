import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.errors import BadEvent, Unavailable, UsageError, WrongExpectedVersion
from core.event import Event, StoredEvent
from core.identity import uuid_text
from core.vocabulary import Payload, Unknown, payload
from core.vocabulary.contract import BudgetExhausted, Check, ExecError, Observation, ToolCall, Ui
from core.vocabulary.episode import ActionSubmitted, EpisodeEnded, FeedbackRecorded, VerificationRecorded
from eventlog.aio import AsyncLog
from eventlog.blobs import BlobStore
from eventlog.inmemory import InMemoryLog
from eventlog.log import Appended, Wait
from eventlog.recorder import Recorder, record

PNG = b"\x89PNG\r\n\x1a\n" + bytes(30)
PASS = Check("sent", "state", "pass")


def events(log: InMemoryLog, recorder: Any) -> list[StoredEvent]:
    return list(log.read(recorder.stream))


def types(log: InMemoryLog, recorder: Any) -> list[str]:
    return [event.type for event in events(log, recorder)]


def end(log: InMemoryLog, recorder: Any) -> dict[str, Any]:
    (ended,) = (said for said in map(payload, events(log, recorder)) if isinstance(said, EpisodeEnded))
    return dict(msgspec.to_builtins(ended.end))


def said(log: InMemoryLog, appended: Appended) -> Payload | Unknown:
    return payload(next(iter(log.read(appended.stream, after=appended.version - 1))))


def test_an_episode_is_recorded_from_its_start_to_its_verdict() -> None:
    log = InMemoryLog()
    with log.episode(task="message-ann", policy="planner", split="dev", conversation="c1") as episode:
        episode.message("user", "Tell Ann")
        assert episode.model("I will", thought="hm") == 1
        call = episode.action("send", {"to": "Ann"}, call_id="c")
        episode.dispatched(call)
        episode.feedback(call, {"sent": True}, latency_ms=3.5)
        assert episode.model("Done") == 2
        episode.note("smooth", target=call.version)
    episode.verify("pass", checks=[PASS], progress=1.0)
    assert types(log, episode) == [
        "EpisodeStarted",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "ActionDispatched",
        "FeedbackRecorded",
        "ModelResponded",
        "NoteAdded",
        "EpisodeEnded",
        "VerificationRecorded",
    ]
    assert end(log, episode) == {"kind": "finished"}
    recorded = events(log, episode)
    assert [event.seq for event in recorded] == list(range(1, 11))
    assert len({event.run for event in recorded}) == 1
    assert {event.conversation for event in recorded} == {"c1"}
    assert all(event.occurred_at for event in recorded)
    fed = payload(recorded[5])
    assert isinstance(fed, FeedbackRecorded)
    assert (fed.step, fed.call_id, fed.action, fed.latency_ms) == (1, "c", 4, 3.5)


def test_an_action_is_in_the_log_before_it_can_be_dispatched() -> None:
    log = InMemoryLog()
    with record(log) as episode:
        call = episode.action("send", {})
        assert types(log, episode)[-1] == "ActionSubmitted"
        assert call.version == log.stream_head(episode.stream)


@pytest.mark.parametrize(
    ("args", "kept", "text"),
    [
        ({"a": 1}, b'{"a":1}', None),
        ('{"a":  1.50}', b'{"a":  1.50}', None),
        (b"[1]", b"[1]", None),
        ("{'a'}", b"null", "{'a'}"),
        (msgspec.Raw(b'{"b" :2}'), b'{"b" :2}', None),
        (None, b"null", None),
    ],
)
def test_the_text_of_arguments_is_kept_verbatim(args: Any, kept: bytes, text: str | None) -> None:
    log = InMemoryLog()
    with record(log) as episode:
        episode.action("send", args)
    submitted = payload(events(log, episode)[1])
    assert isinstance(submitted, ActionSubmitted) and isinstance(submitted.action, ToolCall)
    assert (bytes(submitted.action.args), submitted.action.args_text) == (kept, text)


def test_actions_and_feedback_of_the_contract_are_taken_as_they_are() -> None:
    log = InMemoryLog()
    failed = ExecError("timeout", retryable=True, effect="unknown", message="no answer")
    with record(log) as episode:
        call = episode.action(Ui("key", key="home"))
        answer = episode.feedback(call, failed)
    fed = said(log, answer)
    assert isinstance(fed, FeedbackRecorded)
    assert fed.feedback == failed


def test_what_was_seen_is_a_blob_before_it_is_an_event(tmp_path: Path) -> None:
    log = InMemoryLog()
    blobs = BlobStore(tmp_path)
    with record(log, blobs=tmp_path) as episode:
        first = episode.observation(PNG, text="home screen")
        call = episode.action(Ui("screenshot"))
        second = episode.observation(PNG, b"<tree/>", answers=call, flags=["stale"])
    for answer, action, count in ((first, None, 1), (second, call.version, 2)):
        fed = said(log, answer)
        assert isinstance(fed, FeedbackRecorded) and isinstance(fed.feedback, Observation)
        assert (fed.step, fed.action, len(fed.feedback.blobs)) == (1, action, count)
        assert fed.feedback.blobs[0].media_type == "image/png"
        assert blobs.get(fed.feedback.blobs[0].address) == PNG


def test_large_values_go_to_the_logs_own_blob_store() -> None:
    log = InMemoryLog()
    words = "x" * 100_000
    with record(log) as episode:
        episode.model(words)
        call = episode.action("read", {"text": words})
        episode.feedback(call, {"page": [words, "y"]})
    assert max(len(event.body) for event in events(log, episode)) < 1_000
    turn = msgspec.json.decode(events(log, episode)[1].body)
    assert BlobStore(log.blobs).get(turn["content"]["address"]).decode() == words


def test_a_log_without_a_blob_store_asks_for_one() -> None:
    log = InMemoryLog()
    log.blobs = None  # type: ignore[assignment]
    with record(log) as episode, pytest.raises(UsageError, match="no blob store"):
        episode.model("x" * 100_000)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("bad plan"), {"kind": "agent_error", "message": "ValueError: bad plan"}),
        (KeyboardInterrupt(), {"kind": "cancelled", "message": "KeyboardInterrupt: "}),
        (SystemExit(3), {"kind": "cancelled", "message": "SystemExit: 3"}),
    ],
)
def test_an_exception_ends_the_episode_as_what_it_is(error: BaseException, expected: dict[str, Any]) -> None:
    log = InMemoryLog()
    with pytest.raises(type(error)), record(log) as episode:
        raise error
    assert end(log, episode) == expected


def test_an_end_that_was_said_stands() -> None:
    log = InMemoryLog()
    with pytest.raises(ValueError, match="later"), record(log) as episode:
        episode.end(BudgetExhausted("steps"))
        raise ValueError("later")
    assert end(log, episode) == {"kind": "budget", "dimension": "steps"}


class Down(InMemoryLog):
    """A log that stops answering."""

    down = False

    def append(self, event: Event, *, wait: Wait = "persisted") -> Appended:
        if self.down:
            raise Unavailable("the database is down")
        return super().append(event)


def test_the_exception_of_the_block_is_seen_though_the_log_is_down() -> None:
    log = Down()
    with pytest.raises(ValueError, match="first") as caught, record(log):
        log.down = True
        raise ValueError("first")
    assert "could not record the end" in caught.value.__notes__[0]


def test_a_log_that_is_down_is_not_hidden() -> None:
    log = Down()
    with pytest.raises(Unavailable), record(log):
        log.down = True


def test_the_end_states_the_last_number_of_every_run() -> None:
    log = InMemoryLog()
    with record(log) as episode:
        other = Recorder(log, None, id=episode.id)  # type: ignore[arg-type]
        other.begun = True
        other.note("from another process")
        other.note("and another")
    ended = payload(events(log, episode)[-1])
    assert isinstance(ended, EpisodeEnded)
    runs = {uuid_text(event.run): event.seq for event in events(log, episode)}
    assert ended.runs == runs
    assert sorted(runs.values()) == [2, 2]


def test_what_no_event_may_hold_leaves_no_gap_in_the_numbers() -> None:
    log = InMemoryLog()
    deep: Any = None
    for _ in range(200):
        deep = [deep]
    with record(log) as episode:
        for bad in ("\ud800", b"bytes", object(), deep):
            with pytest.raises(BadEvent):
                episode.message("user", bad)
        episode.message("user", None)
    assert [event.seq for event in events(log, episode)] == [1, 2, 3]


def test_an_episode_begins_once() -> None:
    log = InMemoryLog()
    with record(log, id="a"):
        pass
    with pytest.raises(WrongExpectedVersion), record(log, id="a"):
        pass


def test_calls_out_of_order_are_refused() -> None:
    log = InMemoryLog()
    early = record(log)
    with pytest.raises(UsageError, match="has not begun"):
        early.model("x")
    with record(log) as episode:
        pass
    for late in (
        episode.end,
        lambda: episode.model("x"),
        lambda: episode.action("f"),
        lambda: episode.message("user", ""),
    ):
        with pytest.raises(UsageError, match="has ended"):
            late()
    episode.note("late, and welcome")


def test_a_machines_pass_needs_a_check() -> None:
    log = InMemoryLog()
    with record(log) as episode:
        with pytest.raises(UsageError, match="without a check"):
            episode.verify("pass")
        episode.verify("fail", why="nothing was sent")
        human = episode.verify("pass", source="human", why="I saw it")
    judged = said(log, human)
    assert isinstance(judged, VerificationRecorded)
    assert judged.source == "human"


def test_threads_may_share_an_episode() -> None:
    log = InMemoryLog()
    with record(log) as episode:
        calls = [episode.action("f", {"n": n}) for n in range(20)]
        threads = [threading.Thread(target=episode.feedback, args=(call, n)) for n, call in enumerate(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(event.seq for event in events(log, episode)) == list(range(1, 43))


def test_an_episode_can_be_recorded_from_asyncio() -> None:
    log = InMemoryLog()

    async def play() -> Any:
        async with AsyncLog(log).episode(task="t") as episode:
            await episode.message("user", "hi")
            assert await episode.model("yes") == episode.step == 1
            call = await episode.action("f", {"a": 1})
            await episode.feedback(call, "ok")
        await episode.verify("fail")
        return episode

    episode = asyncio.run(play())
    assert types(log, episode) == [
        "EpisodeStarted",
        "MessageRecorded",
        "ModelResponded",
        "ActionSubmitted",
        "FeedbackRecorded",
        "EpisodeEnded",
        "VerificationRecorded",
    ]
    assert end(log, episode) == {"kind": "finished"}


def test_a_cancelled_task_ends_its_episode_as_cancelled() -> None:
    log = InMemoryLog()
    seen: list[Any] = []

    async def play() -> None:
        async with AsyncLog(log).episode() as episode:
            seen.append(episode)
            await asyncio.sleep(60)

    async def stop() -> None:
        task = asyncio.create_task(play())
        while not seen:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop())
    assert end(log, seen[0])["kind"] == "cancelled"
