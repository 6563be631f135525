"""Episodes back from the spans that `otlp_export` wrote: event by event, as they were.

Their versions stand: what names a version of its stream means the same event again. An episode that
is not whole there (spans were sampled, or lost attributes) is read by its `gen_ai.*` attributes.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from core import times, vocabulary
from core.event import Event
from core.vocabulary import Payload, Unknown
from core.vocabulary.episode import (
    EpisodeEnded,
    EpisodeRetracted,
    EpisodeStarted,
    FeedbackRecorded,
    NoteAdded,
    VerificationRecorded,
)
from eventlog.interchange.draft import EpisodeDraft
from eventlog.interchange.otlp_export import EPISODE, PREFIX, fields_of
from eventlog.interchange.otlp_json import Entry
from eventlog.interchange.otlp_span import Happened, Span

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_NOWHERE = bytes(16)


def restore(found: Sequence[Entry], where: str) -> list[EpisodeDraft] | None:
    """The episodes that the spans hold event by event; None if there are none, or one is not whole."""
    if not any(EPISODE.encode() in bytes(entry.data) for entry in found):
        return None
    episodes: dict[str, dict[int, Happened]] = {}
    others: list[Entry] = []
    for entry in found:
        span = None if entry.is_log else Span(entry.data, where)
        name = span.attributes.peek(EPISODE) if span else None
        if span is None or not isinstance(name, str):
            others.append(entry)
            continue
        told = episodes.setdefault(name, {})
        for event in span.events:
            version = event.attributes.peek("trajlog.version")
            if event.name.startswith(PREFIX) and isinstance(version, int):
                told[version] = event
    drafts = []
    for told in episodes.values():
        draft = _restored(told) if sorted(told) == list(range(1, len(told) + 1)) and told else None
        if draft is None:
            return None
        drafts.append(draft)
    for entry in _beside(drafts, others):
        kind = "log record" if entry.is_log else "span"
        drafts[0].unmapped[f"{kind} beside an exported episode: kept in the record"] += 1
    return drafts


def _restored(told: dict[int, Happened]) -> EpisodeDraft | None:
    """An episode from its events by version; None if it does not begin with its start."""
    draft: EpisodeDraft | None = None
    moved: dict[int, int] = {}
    lost: list[str] = []
    for version in sorted(told):
        event = told[version].attributes
        type_ = told[version].name.removeprefix(PREFIX)
        body = event.peek("trajlog.payload")
        schema = event.peek("trajlog.schema")
        if not isinstance(body, str) or not isinstance(schema, int):
            return None
        said = _payload(type_, schema, body.encode())
        if version == 1:
            if not isinstance(said, EpisodeStarted):
                return None
            draft = EpisodeDraft(said)
            moved[1] = 1
            draft.events[0] = draft.events[0]._replace(
                occurred_at=_at(event.peek("trajlog.occurred_at")),
                actor=event.peek("trajlog.actor"),
                conversation=event.peek("trajlog.conversation"),
            )
            continue
        assert draft
        if isinstance(said, Unknown):
            lost.append(f"event {type_[:60]} that this version cannot read: kept in the record")
            continue
        if isinstance(said, EpisodeRetracted):
            lost.append("retraction of the exported episode: kept in the record")
            continue
        lost += [f"{type_}.{name[:60]} of a newer version: kept in the record" for name in _newer(said, body)]
        moved[version] = draft.add(
            _pointed(said, moved),
            occurred_at=_at(event.peek("trajlog.occurred_at")),
            actor=event.peek("trajlog.actor"),
            conversation=event.peek("trajlog.conversation"),
        )
    if draft:
        draft.unmapped.update(lost)
    return draft


def _payload(type_: str, schema: int, body: bytes) -> Payload | Unknown:
    bare = Event(event_id=_NOWHERE, stream="-", writer="-", run=_NOWHERE, seq=1, type=type_, schema=schema, body=body)
    return vocabulary.payload(bare)


def _pointed(said: Payload, moved: dict[int, int]) -> Payload:
    """The payload with the versions it names where they are now; the runs of its old stream are gone."""
    if isinstance(said, EpisodeEnded):
        return replace(said, runs={})
    if isinstance(said, FeedbackRecorded) and said.action is not None:
        return replace(said, action=moved.get(said.action))
    if isinstance(said, VerificationRecorded) and said.supersedes is not None:
        return replace(said, supersedes=moved.get(said.supersedes))
    if isinstance(said, NoteAdded) and said.target is not None:
        return replace(said, target=moved.get(said.target))
    return said


def _newer(said: Payload, body: str) -> list[str]:
    """The payload's fields that this version's struct does not have."""
    return [name for name in _fields(body) if name not in said.__struct_encode_fields__]


def _at(text: object) -> int | None:
    return times.from_text(text) if isinstance(text, str) else None


def _beside(drafts: list[EpisodeDraft], others: list[Entry]) -> list[Entry]:
    """Of the spans that hold no events of ours, those that no episode keeps in its `extra`."""
    kept = set()
    for draft in drafts:
        for raw in msgspec.json.decode(fields_of(draft.started.extra).get("spans", b"[]"), type=list[Raw]):
            kept.add(bytes(_fields(raw)["data"]))
    return [entry for entry in others if bytes(entry.data) not in kept]
