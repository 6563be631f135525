"""The record of an episode under way: what is appended to its stream, and what that makes known."""

from contextlib import suppress
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from backends.conversation import HIDDEN, Conversation
from backends.verifier import Answered
from core.times import now
from core.vocabulary import Payload
from core.vocabulary.contract import Action
from core.vocabulary.episode import EpisodeStarted, EvidenceRecorded, FeedbackRecorded
from eventlog.large import body
from eventlog.log import Log
from eventlog.recorder import Recorder
from eventlog.writer import Writer

WRITER: Final = "runner"


class Track:
    """`version`: of the last event; `answered`: actions by version, with what came back last;
    `settled`: how the last answer was settled, if it had got lost."""

    def __init__(self, log: Log, id: str) -> None:
        self.id = id
        self.stream = f"episode/{id}"
        self.conversation = Conversation(self.stream)
        self.answered: dict[int, Answered] = {}
        self.version = 0
        self.recorder = Recorder(log, EpisodeStarted(), id=id, writer=WRITER)
        self._log = log
        self._writer = Writer(WRITER)

    def begin(self, started: EpisodeStarted) -> None:
        """The first event. `WrongExpectedVersion` if the episode exists."""
        self.recorder = Recorder(self._log, started, id=self.id, writer=WRITER)
        self.recorder.__enter__()
        self.version = 1
        self.conversation.add(started, 1)

    def record(self, payload: Payload, actor: str | None = None) -> int:
        """Append one event; returns its version."""
        self.version = self.recorder.event(payload, actor=actor).version
        self.conversation.add(payload, self.version)
        return self.version

    def answer(self, feedback: FeedbackRecorded, action: Action) -> None:
        """Append what came back for an action."""
        self.record(feedback, "executor")
        self.answered[feedback.action or 0] = Answered(action, feedback.feedback)

    def hide(self, evidence: EvidenceRecorded) -> str:
        """Keep what the verifier read where no planner reads; returns stream@version."""
        stream = f"{HIDDEN}{self.stream}"
        kept = body(evidence, self.recorder.keep)
        event = self._writer.raw(stream, "EvidenceRecorded", kept, occurred_at=now(), actor="verifier")
        return f"{stream}@{self._log.append(event).version}"


def settled(feedback: FeedbackRecorded) -> str | None:
    """How an answer that had got lost was settled: `re-executed`, or `restored` to the state before."""
    if feedback.extra is UNSET:
        return None
    with suppress(ValueError, AttributeError):
        found = msgspec.json.decode(feedback.extra).get("settled")
        return found if isinstance(found, str) else None
    return None


def raw(value: Any) -> Raw:
    """Plain values as JSON."""
    return Raw(msgspec.json.encode(value))
