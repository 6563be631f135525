"""An event as an exporter handles it, from the log or from an importer's draft."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from core import vocabulary
from core.event import StoredEvent
from core.vocabulary import Payload, Unknown
from eventlog.interchange.draft import EventDraft
from eventlog.interchange.whole import Fetch, whole

_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class Recorded(NamedTuple):
    """What happened: `payload` to look at, `fields` its JSON field by field, those that this version
    does not know too. Times are µs."""

    type: str
    schema: int
    payload: Payload | Unknown
    fields: dict[str, Raw]
    occurred_at: int | None = None
    actor: str | None = None
    conversation: str | None = None


def of_event(event: StoredEvent, fetch: Fetch) -> Recorded:
    """An event of the log, its large texts in place."""
    payload = vocabulary.payload(event)
    if isinstance(payload, Unknown):
        fields = _fields(event.body)
    else:
        payload = whole(payload, fetch)
        fields = fields_of(payload)
        if event.schema == payload.schema_number:
            known = payload.__struct_encode_fields__
            fields |= {name: raw for name, raw in _fields(event.body).items() if name not in known}
    schema = event.schema if isinstance(payload, Unknown) else payload.schema_number
    return Recorded(event.type, schema, payload, fields, event.occurred_at, event.actor, event.conversation)


def in_place(event: StoredEvent, fetch: Fetch) -> StoredEvent:
    """The event with its large texts in its payload."""
    payload = vocabulary.payload(event)
    if isinstance(payload, Unknown):
        return event
    inlined = whole(payload, fetch)
    return event if inlined is payload else msgspec.structs.replace(event, body=vocabulary.body(inlined))


def of_draft(draft: EventDraft) -> Recorded:
    """An event that an importer made."""
    payload = draft.payload
    name, schema, fields = type(payload).__name__, payload.schema_number, fields_of(payload)
    return Recorded(name, schema, payload, fields, draft.occurred_at, draft.actor, draft.conversation)


def fields_of(payload: Payload) -> dict[str, Raw]:
    """A payload's JSON, field by field."""
    fields: dict[str, Raw] = _fields(vocabulary.body(payload))
    return fields


def extra_of(payload: Payload | Unknown) -> dict[str, Any]:
    """What the source of an event held besides; empty if it is no object."""
    extra = getattr(payload, "extra", None)
    value = msgspec.json.decode(extra) if isinstance(extra, Raw) else None
    return value if isinstance(value, dict) else {}


def object_of(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object of these fields, those that are None left out."""
    return {name: value for name, value in fields if value is not None}
