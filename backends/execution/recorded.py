"""Recorded episodes as what re-execution needs of them: actions, what came back, states, in order."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from core.errors import TrajlogError
from core.event import Event
from core.vocabulary import Payload, Unknown, payload
from core.vocabulary.contract import Action, ExecError, Feedback, ToolCall, Ui, UserReply
from core.vocabulary.episode import ActionSubmitted, EpisodeStarted, FeedbackRecorded, ModelResponded, Parent
from eventlog.blobs import BlobStore
from eventlog.interchange.whole import whole
from eventlog.log import Log
from eventlog.views import PREFIX, calls
from eventlog.views.payloads import Answered, FeedbackRead

_READ: Final = """
SELECT stream, version, type, schema, body FROM trajlog.event
WHERE stream = ANY(%s) AND (
    type IN ('EpisodeStarted', 'ActionSubmitted', 'FeedbackRecorded')
    OR type = 'ModelResponded' AND position('copied'::bytea IN body) > 0
) ORDER BY stream, version
"""

_LOST: Final = frozenset({"timeout", "transport_lost", "lease_lost", "injected"})
"""Errors that say nothing of the environment where their effect is unknown."""


Said = TypeVar("Said", ActionSubmitted, FeedbackRecorded)


class Act(msgspec.Struct):
    """An action that was carried out, by the version of its `ActionSubmitted`, and what came back last.
    `before` and `after`: digests of the state."""

    version: int
    step: int
    action: Action
    feedback: Feedback | None = None
    before: str | None = None
    after: str | None = None

    @property
    def name(self) -> str:
        """The tool, or what was done to the screen."""
        return self.action.tool if isinstance(self.action, ToolCall) else getattr(self.action, "op", self.action.kind)

    @property
    def comparable(self) -> bool:
        """Whether something came back that could come again."""
        feedback = self.feedback
        lost = isinstance(feedback, ExecError) and feedback.effect == "unknown" and feedback.class_ in _LOST
        return feedback is not None and not lost


class Episode(msgspec.Struct):
    """A recorded episode. `prefix`: the actions of the one it was forked from, up to the fork, their
    versions below 0; `wrong`: why it cannot be run again."""

    id: str
    started: EpisodeStarted = EpisodeStarted()
    acts: list[Act] = []
    prefix: list[Act] = []
    wrong: str | None = None

    @property
    def imported(self) -> bool:
        return self.started.origin is not None


class _Told(msgspec.Struct, gc=False):
    version: int
    type: str
    schema: int
    body: bytes


def read(log: Log, episodes: Sequence[str]) -> Iterator[Episode]:
    """The episodes, in that order, with texts that were moved to the blob store back in place."""
    blobs = _Blobs(log)
    for id, events in _events(log, episodes):
        found = _episode(id, events, blobs)
        if found.started.parent is not None and found.wrong is None:
            shared = _prefix(log, found.started.parent, blobs)
            found.prefix = [replace(act, version=-place) for place, act in enumerate(shared, 1)]
        yield found


def _events(log: Log, episodes: Sequence[str]) -> Iterator[tuple[str, list[_Told]]]:
    found: dict[str, list[_Told]] = {PREFIX + id: [] for id in episodes}
    if log.reader is None:
        for stream, listed in found.items():
            listed += [_Told(one.version, one.type, one.schema, one.body) for one in log.read(stream)]
    else:
        with log.reader.borrow() as connection:
            for stream, *told in connection.execute(_READ, (list(found),), binary=True):
                found[stream].append(_Told(*told))
    for id in episodes:
        yield id, found[PREFIX + id]


def _episode(id: str, events: Iterable[_Told], blobs: "_Blobs") -> Episode:
    found = Episode(id)
    acts: dict[int, Act] = {}
    pending: calls.Pending = {}
    copied: set[int] = set()
    for event in events:
        said = _payload(event)
        if isinstance(said, Unknown):
            found.wrong = found.wrong or f"event {event.version} cannot be read: {said.why}"
        elif isinstance(said, EpisodeStarted):
            found.started = said
        elif isinstance(said, ModelResponded):
            copied |= {said.step} if said.copied else set()
        elif isinstance(said, ActionSubmitted):
            action = said.action
            pending[event.version] = said.step, getattr(action, "call_id", None), action.kind
            if said.step not in copied and isinstance(action, ToolCall | Ui):
                acts[event.version] = Act(event.version, said.step, blobs.whole(said).action)
        elif isinstance(said, FeedbackRecorded):
            _answer(blobs.whole(said), acts, pending)
    found.wrong = found.wrong or blobs.missing
    blobs.missing = None
    if not found.started.origin and found.wrong is None and found.started == EpisodeStarted():
        found.wrong = "it has no beginning"
    found.acts = list(acts.values())
    return found


def _answer(said: FeedbackRecorded, acts: dict[int, Act], pending: calls.Pending) -> None:
    """Give a feedback to its action; of several the last one counts."""
    version = said.action
    if version is None:
        read = FeedbackRead(said.feedback.kind)
        version = calls.answered(pending, Answered(said.step, read, said.call_id))
    if version is None:
        return
    pending.pop(version, None)
    act = acts.get(version)
    if act is not None and not isinstance(said.feedback, UserReply):
        act.before = act.before or said.state_before
        act.feedback, act.after = said.feedback, said.state_after


def _prefix(log: Log, parent: Parent, blobs: "_Blobs") -> list[Act]:
    """What a fork shares with the episode it comes from."""
    told = [_Told(one.version, one.type, one.schema, one.body) for one in log.read(parent.stream, until=parent.version)]
    found = _episode(parent.stream.removeprefix(PREFIX), told, blobs)
    above = found.started.parent
    return [*(_prefix(log, above, blobs) if above is not None else []), *found.acts]


_DECODERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    kind.__name__: msgspec.json.Decoder(kind) for kind in (ActionSubmitted, FeedbackRecorded)
}


def _payload(event: _Told) -> Payload | Unknown:
    decoder = _DECODERS.get(event.type) if event.schema == 1 else None
    if decoder is not None:
        try:
            read: Payload = decoder.decode(event.body)
        except (msgspec.MsgspecError, ValueError):
            pass
        else:
            return read
    return payload(_event(event))


def _event(told: _Told) -> Event:
    return Event(
        event_id=bytes(16), stream="episode/-", writer="-", run=bytes(16), seq=1, type=told.type, body=told.body,
        schema=told.schema,
    )  # fmt: skip


class _Blobs:
    """Where large texts lie; `missing` says which could not be had."""

    def __init__(self, log: Log) -> None:
        self._place = log.blobs
        self._store: BlobStore | None = None
        self.missing: str | None = None

    def whole(self, said: Said) -> Said:
        """The payload with its large texts in place."""
        made = whole(said, self._fetch)
        assert isinstance(made, type(said))
        return made

    def _fetch(self, address: str) -> bytes | None:
        if self._place is not None and self._store is None:
            self._store = BlobStore(self._place)
        try:
            if self._store is not None:
                return self._store.get(address)
            self.missing = f"blob {address} cannot be had: the log has no blob store"
        except TrajlogError as error:
            self.missing = str(error)
        return None
