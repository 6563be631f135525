"""Episodes back from the spans that `otlp_export` wrote: event by event, as they were.

Their versions stand: what names a version of its stream means the same event again. An episode that
is not whole there (spans were sampled, or lost attributes) is read by its `gen_ai.*` attributes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct
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
from eventlog.interchange.draft import EpisodeDraft, EventDraft
from eventlog.interchange.otlp.exporter import EPISODE, EVENTS, PREFIX, fields_of
from eventlog.interchange.otlp.json import Entry, KeyValue, value_of

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_NOWHERE = bytes(16)


class _Event(Struct):
    name: str = ""
    attributes: list[KeyValue] = []


class _Span(Struct):
    attributes: list[KeyValue] = []
    events: list[_Event] = []


_span = msgspec.json.Decoder(_Span).decode


class _Told(NamedTuple):
    """An event as it was exported, and what else its span's event says of it."""

    type: str
    said: dict[str, Any]


def restore(found: Sequence[Entry], where: str) -> list[EpisodeDraft] | None:
    """The episodes that the spans hold event by event; None if there are none, or one is not whole."""
    if not any(EPISODE.encode() in bytes(entry.data) for entry in found):
        return None
    episodes: dict[str, dict[int, _Told]] = {}
    counts: dict[str, int] = {}
    others: list[Entry] = []
    for entry in found:
        span = None if entry.is_log else _own_span(entry.data)
        given = _said(span.attributes) if span else {}
        name = given.get(EPISODE)
        if span is None or not isinstance(name, str):
            others.append(entry)
            continue
        told = episodes.setdefault(name, {})
        counts[name] = given.get(EVENTS) or counts.get(name, 0)
        for event in span.events:
            if event.name.startswith(PREFIX):
                said = _said(event.attributes)
                told[said.get("trajlog.version", 0)] = _Told(event.name.removeprefix(PREFIX), said)
    drafts = []
    for name, told in episodes.items():
        draft = _restored(told) if told and len(told) == counts[name] else None
        if draft is None:
            return None
        drafts.append(draft)
    for entry in _beside(drafts, others):
        kind = "log record" if entry.is_log else "span"
        drafts[0].unmapped[f"{kind} beside an exported episode: kept in the record"] += 1
    return drafts


def _own_span(data: Raw) -> _Span | None:
    """A span, if it may be one of ours."""
    if EPISODE.encode() not in bytes(data):
        return None
    try:
        return _span(data)
    except msgspec.ValidationError:
        return None


def _said(pairs: list[KeyValue]) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


def _restored(told: dict[int, _Told]) -> EpisodeDraft | None:
    """An episode from its events by version; None if it does not begin with its start."""
    draft: EpisodeDraft | None = None
    moved: dict[int, int] = {}
    for version in sorted(told):
        type_, given = told[version]
        body, schema = given.get("trajlog.payload"), given.get("trajlog.schema")
        if not isinstance(body, str) or not isinstance(schema, int):
            return None
        said = _payload(type_, schema, body.encode())
        at, actor, conversation = (given.get(f"trajlog.{name}") for name in ("occurred_at", "actor", "conversation"))
        if draft is None:
            if not isinstance(said, EpisodeStarted):
                return None
            draft = EpisodeDraft(said)
            draft.events[0] = EventDraft(said, _at(at), actor, conversation)
            moved[version] = 1
        elif isinstance(said, Unknown):
            draft.unmapped[f"event {type_[:60]} that this version cannot read: kept in the record"] += 1
        elif isinstance(said, EpisodeRetracted):
            draft.unmapped["retraction of the exported episode: kept in the record"] += 1
        else:
            for name in _newer(said, body):
                draft.unmapped[f"{type_}.{name[:60]} of a newer version: kept in the record"] += 1
            pointed = _pointed(said, moved)
            moved[version] = draft.add(pointed, occurred_at=_at(at), actor=actor, conversation=conversation)
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
    if vocabulary.body(said) == body.encode():
        return []
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
