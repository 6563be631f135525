"""An episode's conversation as references to events: what a model is shown and, of that, what it said.

A model turn is followed by its calls and these by what answered them, as chat APIs want it; feedback
that answers no call is the user's. Of several answers to one call the last counts. `content` follows from
what was said, called and answered alone: equal conversations have equal ones, wherever they came from.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

import msgspec
from msgspec import Raw

from core.event import StoredEvent
from eventlog.views import calls, payloads
from eventlog.views.payloads import ActionRead
from learners.views.reads import Answered, Responded, Said, Submitted

_read_action = msgspec.json.Decoder(ActionRead).decode
_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_OF_THE_RUN = frozenset({"call_id", "schema_digest"})


class Part(NamedTuple):
    """A message, or a call of the model turn before it. `kind` is system, developer, user, assistant, call
    or tool; `version` that of its event; `step` 0 if it has none; `of` the call that a tool's answer is
    about, else 0. `trains`: its tokens are supervised."""

    kind: str
    version: int
    step: int
    of: int
    trains: bool


class Message(msgspec.Struct, array_like=True, gc=False):
    """A message with, if it is a model turn, its calls and the answers to them (call → answer)."""

    kind: str
    version: int
    step: int
    generated: bool = False
    calls: list[int] = []
    answers: dict[int, int] = {}


class Conversation(msgspec.Struct, array_like=True, gc=False):
    """What was said so far. `turns`: step → index of its latest turn; `asked`: call → index of its turn."""

    messages: list[Message] = []
    turns: dict[int, int] = {}
    asked: dict[int, int] = {}
    pending: calls.Pending = {}
    content: bytes = b""
    plan: list[str] = []
    errors: int = 0

    def say(self, event: StoredEvent, said: Said) -> None:
        self._hash(event, b"said", said.role.encode(), said.content)
        self.messages.append(Message(said.role, event.version, 0))

    def respond(self, event: StoredEvent, turn: Responded) -> None:
        self._hash(event, b"turn", b"copied" if turn.copied else b"", turn.content, turn.thought)
        self._turn(event.version, turn.step, not turn.copied)

    def submit(self, event: StoredEvent, submitted: Submitted) -> None:
        action = _read_action(submitted.action)
        told = sorted(_fields(submitted.action).items())
        parts = [part for name, value in told if name not in _OF_THE_RUN for part in (name.encode(), value)]
        self._hash(event, b"call", *parts)
        at = self.turns.get(submitted.step)
        if at is None:
            at = self._turn(0, submitted.step, False)
        turn = self.messages[at]
        turn.calls.append(event.version)
        self.asked[event.version] = at
        name = calls.submit(self.pending, event.version, payloads.Submitted(submitted.step, action))
        if turn.generated and action.kind not in calls.FINAL:
            self.plan.append(name)

    def answer(self, event: StoredEvent, answered: Answered) -> None:
        feedback = answered.feedback
        failed = feedback.kind == "ExecError"
        self._hash(
            event,
            b"answer",
            feedback.kind.encode(),
            (feedback.class_ or "").encode(),
            feedback.value,
            feedback.text,
            feedback.message,
            feedback.blobs,
        )
        called = calls.answered(self.pending, answered)
        if called is not None:
            del self.pending[called]
        elif answered.action in self.asked:
            called = answered.action
        self.errors += failed and (called is None or self.messages[self.asked[called]].generated)
        if called is None:
            self.messages.append(Message("user", event.version, 0))
        else:
            self.messages[self.asked[called]].answers[called] = event.version

    def parts(self, masked: frozenset[int] | set[int]) -> Iterator[Part]:
        """In order; the turns of the steps `masked` do not train."""
        for message in self.messages:
            trains = message.generated and message.step not in masked
            if message.version:
                yield Part(message.kind, message.version, message.step, 0, trains)
            for called in message.calls:
                yield Part("call", called, message.step, 0, trains)
            for called in message.calls:
                answer = message.answers.get(called)
                if answer is not None:
                    yield Part("tool", answer, message.step, called, False)

    def _turn(self, version: int, step: int, generated: bool) -> int:
        self.messages.append(Message("assistant", version, step, generated))
        at = self.turns[step] = len(self.messages) - 1
        return at

    def _hash(self, event: StoredEvent, *parts: bytes | Raw) -> None:
        """What is sealed is told by its ciphertext alone."""
        told = parts if event.owner is None else (parts[0], event.body)
        digest = blake2b(self.content, digest_size=16)
        for part in map(bytes, told):
            digest.update(len(part).to_bytes(8, "big") + part)
        self.content = digest.digest()
