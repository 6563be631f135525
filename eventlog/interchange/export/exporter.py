"""Export: episodes go out in formats of other tools.

A format is one module with one `Exporter`; `EXPORTS` names them. What a format has no place for goes
into its `extra` or attributes, and an import takes it back.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import msgspec

from core import vocabulary
from core.errors import BadRecord, UsageError
from core.event import StoredEvent
from core.vocabulary import BlobRef
from core.vocabulary.episode import EpisodeStarted
from eventlog.blobs.media_type import sniff
from eventlog.interchange.export.recorded import Recorded, in_place, of_event
from eventlog.interchange.whole import Fetch

EXPORTS: dict[str, str] = {
    "atif": "eventlog.interchange.atif.exporter:Atif",
    "openai": "eventlog.interchange.openai.exporter:OpenAI",
    "otlp": "eventlog.interchange.export.exporter:Otlp",
}

_NOT_EXPORTED = frozenset({"EpisodeRetracted"})
_OWN = {"EpisodeStarted": "origin", "EpisodeEnded": "runs"}
"""Fields that say where in this log, and by whom, an episode was recorded."""


def _nothing(_: object) -> None:
    return None


def _no_events(_: str) -> Sequence[StoredEvent]:
    return ()


class Library(NamedTuple):
    """What an exporter may look up. `fetch`: a blob's bytes. `image`: puts an image beside what is
    exported and returns its path there, None if there is no such place. `events`: those of another
    episode, none if it is unknown. `bare`: write only what the format itself has."""

    fetch: Fetch = _nothing
    image: Callable[[BlobRef], str | None] = _nothing
    events: Callable[[str], Sequence[StoredEvent]] = _no_events
    bare: bool = False


class Exporter:
    """One format. Each episode is one JSON document; `suffix` is that of its file."""

    name: ClassVar[str]
    suffix: ClassVar[str] = ".json"

    def __init__(self) -> None:
        self.embedded: set[str] = set()
        """Episodes that went out inside another one so far."""

    def document(self, episode: str, events: Sequence[StoredEvent], library: Library) -> bytes:
        """The episode on one line. `BadRecord` if the events are no episode."""
        raise NotImplementedError


class Otlp(Exporter):
    """One OTLP request for each episode. All that it holds are attributes: `bare` changes nothing."""

    name: ClassVar[str] = "otlp"

    def document(self, episode: str, events: Sequence[StoredEvent], library: Library) -> bytes:
        from eventlog.interchange.otlp.exporter import spans

        started = _started(episode, events)
        inlined = [in_place(event, library.fetch) for event in events if event.type not in _NOT_EXPORTED]
        return encode(spans(started, inlined))


def names() -> list[str]:
    """Every format that episodes can be exported in."""
    return sorted(EXPORTS)


def find(name: str) -> Exporter:
    """The exporter for a format; UsageError if there is none."""
    if name not in EXPORTS:
        raise UsageError(f"cannot export as {name!r}", where="--format", mend=f"use {', '.join(names())}")
    module, _, member = EXPORTS[name].partition(":")
    made = getattr(import_module(module), member)()
    assert isinstance(made, Exporter)
    return made


def recording(episode: str, events: Sequence[StoredEvent], fetch: Fetch) -> list[Recorded]:
    """The events as they go out: large texts in place, nothing of this log's own."""
    _started(episode, events)
    return [_portable(of_event(event, fetch)) for event in events if event.type not in _NOT_EXPORTED]


def _started(episode: str, events: Sequence[StoredEvent]) -> EpisodeStarted:
    first = vocabulary.payload(events[0]) if events else None
    if not isinstance(first, EpisodeStarted):
        raise BadRecord("does not begin with EpisodeStarted: it is no episode", where=f"episode/{episode}")
    return first


def referring(data: bytes) -> BlobRef:
    """A reference to bytes that are not stored."""
    return BlobRef(f"sha256:{sha256(data).hexdigest()}", len(data), sniff(data))


def _portable(recorded: Recorded) -> Recorded:
    """The event without what has a meaning in this log alone."""
    own = _OWN.get(recorded.type)
    if own is None or own not in recorded.fields:
        return recorded
    return recorded._replace(fields={name: raw for name, raw in recorded.fields.items() if name != own})


def encode(document: Any) -> bytes:
    """A document on one line, the white space of verbatim JSON in it left out."""
    return msgspec.json.format(msgspec.json.encode(document), indent=-1)
