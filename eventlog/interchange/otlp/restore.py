"""Episodes back from the spans that `otlp_export` wrote: event by event, as they were.

Their versions stand: what names a version of its stream means the same event again. An episode that
is not whole there (spans were sampled, or lost attributes) is read by its `gen_ai.*` attributes.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

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
from eventlog.interchange.otlp.json import Entry, KeyValue, Request, entries, value_of

_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_NOWHERE = bytes(16)
_EPISODE = EPISODE.encode()
_POINTERS: dict[type[Payload], str] = {
    FeedbackRecorded: "action",
    VerificationRecorded: "supersedes",
    NoteAdded: "target",
}
"""The field of a payload that names another event's version."""


class _Event(Struct, gc=False):
    name: str = ""
    attributes: list[KeyValue] = []


class _Span(Struct, gc=False):
    attributes: Raw = Raw(b"[]")
    events: list[_Event] = []


class _Kept(Struct):
    data: Raw


_span = msgspec.json.Decoder(_Span).decode
_kept = msgspec.json.Decoder(list[_Kept]).decode
_spans = msgspec.json.Decoder(Request[_Span]).decode
_pairs = msgspec.json.Decoder(list[KeyValue]).decode

_Own = tuple[str, Any, list[_Event]]
"""What a span of ours says: its episode, how many events that has if it says so, and some of these."""


_Told = tuple[str, dict[str, Any]]
"""An event as it was exported: its name, and what else its span's event says of it."""


def restore(data: bytes) -> list[EpisodeDraft] | None:
    """The episodes that a request's spans hold event by event; None if there are none, or one is not whole."""
    if _EPISODE not in data:
        return None
    others: list[Entry] = []
    own: Iterable[_Own] | None = _all_own(data)
    if own is None:
        own = _some_own(entries(data), others)
    episodes: dict[str, dict[int, _Told]] = {}
    counts: dict[str, int] = {}
    for name, count, events in own:
        told = episodes.setdefault(name, {})
        counts[name] = count or counts.get(name, 0)
        for event in events:
            if event.name.startswith(PREFIX):
                said = _said(event.attributes)
                told[said.get("trajlog.version", 0)] = event.name, said
        events.clear()  # else a large episode would be there twice
    drafts = []
    for name, told in episodes.items():
        draft = _restored(told) if told and len(told) == counts[name] else None
        if draft is None:
            return None
        drafts.append(draft)
    if not drafts:
        return None
    for entry in _beside(drafts, others) if others else ():
        kind = "log record" if entry.is_log else "span"
        drafts[0].unmapped[f"{kind} beside an exported episode: kept in the record"] += 1
    return drafts


def _all_own(data: bytes) -> list[_Own] | None:
    """The spans of a request, if all that it holds are ours, as it mostly is."""
    found: list[_Own] = []
    try:
        for _, scope in _spans(data).scopes():
            if scope.log_records:
                return None
            for span in scope.spans:
                own = _own(span) if bytes(span.attributes).rfind(_EPISODE) >= 0 else None  # mostly the last one
                if own is None:
                    return None
                found.append(own)
    except (ValueError, RecursionError):
        return None
    return found or None


def _some_own(found: Iterable[Entry], others: list[Entry]) -> Iterator[_Own]:
    """The spans that are ours; all else is put to the others."""
    for entry in found:
        own = None
        if not entry.is_log and _EPISODE in bytes(entry.data):
            with suppress(msgspec.ValidationError):
                own = _own(_span(entry.data))
        if own is None:
            others.append(entry)
        else:
            yield own


def _own(span: _Span) -> _Own | None:
    given = _said(_pairs(span.attributes))
    name = given.get(EPISODE)
    return (name, given.get(EVENTS), span.events) if isinstance(name, str) else None


def _said(pairs: list[KeyValue]) -> dict[str, Any]:
    return {pair.key: value_of(pair.value) for pair in pairs}


def _restored(told: dict[int, _Told]) -> EpisodeDraft | None:
    """An episode from its events by version; None if it does not begin with its start."""
    draft: EpisodeDraft | None = None
    moved: dict[int, int] = {}
    for version in sorted(told):
        name, given = told[version]
        type_ = name.removeprefix(PREFIX)
        text, schema = given.get("trajlog.payload"), given.get("trajlog.schema")
        if not isinstance(text, str) or not isinstance(schema, int):
            return None
        body = text.encode()
        said = _payload(type_, schema, body)
        at, actor = given.get("trajlog.occurred_at"), given.get("trajlog.actor")
        conversation = given.get("trajlog.conversation")
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
            for field in _newer(said, body):
                draft.unmapped[f"{type_}.{field[:60]} of a newer version: kept in the record"] += 1
            pointed = _pointed(said, moved)
            moved[version] = draft.add(pointed, occurred_at=_at(at), actor=actor, conversation=conversation)
    return draft


def _payload(type_: str, schema: int, body: bytes) -> Payload | Unknown:
    bare = Event(event_id=_NOWHERE, stream="-", writer="-", run=_NOWHERE, seq=1, type=type_, schema=schema, body=body)
    return vocabulary.payload(bare)


def _pointed(said: Payload, moved: dict[int, int]) -> Payload:
    """The payload with the version it names where that is now; the runs of its old stream are gone."""
    if isinstance(said, EpisodeEnded):
        return replace(said, runs={})
    pointer = _POINTERS.get(type(said))
    if pointer is None or (version := getattr(said, pointer)) is None:
        return said
    return replace(said, **{pointer: moved.get(version)})


def _newer(said: Payload, body: bytes) -> list[str]:
    """The payload's fields that this version's struct does not have."""
    if vocabulary.body(said) == body:
        return []
    return [name for name in _fields(body) if name not in said.__struct_encode_fields__]


def _at(text: object) -> int | None:
    return times.from_text(text) if isinstance(text, str) else None


def _beside(drafts: list[EpisodeDraft], others: list[Entry]) -> list[Entry]:
    """Of the spans that hold no events of ours, those that no episode keeps in its `extra`."""
    kept: set[bytes] = set()
    for draft in drafts:
        with suppress(msgspec.ValidationError):  # that of another format may hold others of that name
            kept.update(bytes(each.data) for each in _kept(fields_of(draft.started.extra).get("spans", b"[]")))
    return [entry for entry in others if bytes(entry.data) not in kept]
