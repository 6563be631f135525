"""Takes back what an export carried: the plain reading of a file becomes the episode it was."""

import re
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, UnsetType
from msgspec.structs import replace

from core import vocabulary
from core.errors import BadEvent
from core.event import Event
from core.times import from_text
from core.vocabulary import TYPES, Payload
from eventlog.interchange.draft import Context, EventDraft
from eventlog.interchange.export.carried import NESTED, Carried, Entry, again, digest_of, fields_in, kind_of, object_raw
from eventlog.interchange.export.recorded import fields_of, of_draft
from eventlog.interchange.whole import reference

_REFERENCE = re.compile(rb'"address"\s*:\s*"(sha256:[0-9a-f]{64})"(?:\s*,\s*"size"\s*:\s*(\d+))?')
_ADDRESS = b'"address"'
_REFERENCES = {"FeedbackRecorded": "action", "VerificationRecorded": "supersedes", "NoteAdded": "target"}


def restored(
    plain: Sequence[EventDraft], dressed: Sequence[EventDraft], carried: Carried, context: Context
) -> tuple[list[EventDraft], list[str]]:
    """The episode, and why something carried did not come back. `dressed` is the plain reading with
    what stands beside the file, such as images: it counts where nothing is carried. A blob that is
    not stored here is not referred to."""
    _keep_texts(plain, carried, context)
    work = _Restoring(plain, dressed, context.has)
    return work.events(carried), work.lost


def _keep_texts(plain: Sequence[EventDraft], carried: Carried, context: Context) -> None:
    """Store the texts that the carried events refer to: those that came along, and those that the file
    itself holds."""
    entries = msgspec.json.encode(carried.events)
    found = _REFERENCE.findall(entries)
    if not found:
        return
    wanted = {address for address, _ in found}
    for text in carried.blobs.values():
        _keep_text(text, wanted, context)
    least = min(int(size or 0) for _, size in found)
    for event in plain:
        body = vocabulary.body(event.payload)
        if len(body) >= least:
            for text in _texts(msgspec.json.decode(body)):
                _keep_text(text, wanted, context)


def _keep_text(text: str, wanted: set[bytes], context: Context) -> None:
    data = text.encode()
    if b"sha256:" + sha256(data).hexdigest().encode() in wanted:
        context.keep(data)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


class _Slot(NamedTuple):
    """A place in the episode: an event of the plain reading, with what is carried of it, or an event
    that is carried whole."""

    plain: int | None
    entry: Entry | None


class _Restoring:
    """An episode being put together; `lost` says what did not come back."""

    def __init__(self, plain: Sequence[EventDraft], dressed: Sequence[EventDraft], has: Callable[[str], bool]) -> None:
        self.plain = plain
        self.dressed = dressed
        self.has = has
        self.lost: list[str] = []

    def events(self, carried: Carried) -> list[EventDraft]:
        slots = self._slots(carried)
        of_file = {slot.plain + 1: version for version, slot in enumerate(slots, 1) if slot.plain is not None}
        drafts = [self._draft(slot, of_file) for slot in slots]
        numbers: dict[int, int] = {}
        for version, draft in enumerate(drafts, 1):
            if draft is not None:
                numbers[version] = len(numbers) + 1
        return [_referring(draft, numbers) for draft in drafts if draft is not None]

    def _slots(self, carried: Carried) -> list[_Slot]:
        """The places in the order of the file's versions."""
        entries = {entry.version: entry for entry in carried.events}
        left = self._order(carried)
        slots: list[_Slot] = []
        while left or entries:
            entry = entries.pop(len(slots) + 1, None)
            if entry is None and not left:
                entry = entries.pop(min(entries))
            if entry is not None and entry.fits is None and slots:
                slots.append(_Slot(None, entry))
            elif left:
                slots.append(_Slot(left.pop(0), entry))
            else:
                self.lost.append("extra.trajlog: belongs to a step that is gone")
        return slots

    def _order(self, carried: Carried) -> list[int]:
        kept = [index for index in range(len(self.plain)) if index == 0 or index not in carried.drop]
        order = carried.order
        return list(order) if order and order[0] == 0 and sorted(order) == kept else kept

    def _draft(self, slot: _Slot, of_file: dict[int, int]) -> EventDraft | None:
        """The event, referring to others by their place in the file."""
        entry = slot.entry
        if slot.plain is None:
            assert entry is not None
            made = self._made(entry.type or "", entry.schema, entry.payload, first=False)
            return None if made is None else self._enveloped(EventDraft(made), entry)
        dressed = _referring(self.dressed[slot.plain], of_file)
        if entry is None:
            return _compact(dressed)
        plain = of_draft(self.plain[slot.plain])
        if entry.fits != digest_of(plain):
            self.lost.append("extra.trajlog: no longer fits")
            return dressed
        if entry.type is not None:
            made = self._made(entry.type, entry.schema, entry.payload, first=slot.plain == 0)
        elif entry.put or entry.unset or entry.args is not None:
            fields = of_draft(_referring(self.plain[slot.plain], of_file)).fields
            made = self._made(plain.type, plain.schema, _patched(fields, entry), first=slot.plain == 0)
        else:
            made = _compact(dressed).payload
        return dressed if made is None else self._enveloped(replace(dressed, payload=made), entry)

    def _enveloped(self, draft: EventDraft, entry: Entry) -> EventDraft:
        if isinstance(entry.occurred_at, str):
            try:
                draft = replace(draft, occurred_at=from_text(entry.occurred_at))
            except BadEvent:
                self.lost.append("extra.trajlog: a time that is none")
        elif entry.occurred_at is None:
            draft = replace(draft, occurred_at=None)
        if not isinstance(entry.actor, UnsetType):
            draft = replace(draft, actor=entry.actor)
        if not isinstance(entry.conversation, UnsetType):
            draft = replace(draft, conversation=entry.conversation)
        return draft

    def _made(self, type_: str, schema: int, fields: dict[str, Raw], *, first: bool) -> Payload | None:
        """The payload of these fields; None if it is none that an episode may hold there."""
        known = TYPES.get(type_)
        fits = known is not None and known.home.startswith("episode/") and type_ != "EpisodeRetracted"
        if known is None or not fits or (type_ == "EpisodeStarted") is not first:
            self.lost.append(f"extra.trajlog: type {type_[:40]}")
            return None
        body = bytes(object_raw(fields))
        if _ADDRESS in body:
            body = bytes(object_raw({name: self._here(raw) for name, raw in fields.items()}))
        event = Event(event_id=b"", stream="", writer="", run=b"", seq=1, type=type_, schema=schema, body=body)
        made = vocabulary.payload(event)
        if not isinstance(made, Payload):
            self.lost.append(f"extra.trajlog: a {type_} that cannot be read")
            return None
        unknown = fields.keys() - made.__struct_encode_fields__ if schema == made.schema_number else ()
        self.lost += [f"extra.trajlog: {type_}.{name} of a newer version" for name in sorted(unknown)]
        return made

    def _here(self, raw: Raw) -> Raw:
        """The JSON without references to blobs that are not stored here."""
        if _ADDRESS not in bytes(raw):
            return raw
        old = msgspec.json.decode(raw)
        new = self._without(old)
        return raw if new == old else Raw(msgspec.json.encode(new))

    def _without(self, value: Any) -> Any:
        blob = reference(value)
        if blob is not None and not self.has(blob.address):
            self.lost.append("extra.trajlog: a blob that is not here")
            return f"[{blob.media_type} {blob.address} {blob.size:,} bytes]"
        if isinstance(value, list):
            items = [(item, self._without(item)) for item in value]
            return [new for old, new in items if reference(old) is None or new == old]
        if isinstance(value, dict):
            return {name: self._without(item) for name, item in value.items()}
        return value


def _patched(fields: dict[str, Raw], entry: Entry) -> dict[str, Raw]:
    """The fields with what an entry says about them."""
    made = dict(fields)
    inner = {name: fields_in(made[name]) for name in NESTED if name in made and kind_of(made[name]) is not None}
    put = dict(entry.put)
    if entry.args is not None:
        put["action.args"] = Raw(entry.args.encode())
    for path in entry.unset:
        name, _, within = path.partition(".")
        (inner.get(name, {}) if within else made).pop(within or name, None)
    for path, raw in put.items():
        name, _, within = path.partition(".")
        if within and name in inner:
            inner[name][within] = raw
        else:
            made[path] = raw
            inner.pop(path, None)
    for name, kept in inner.items():
        if name in made:
            made[name] = object_raw(kept)
    return made


def _compact(draft: EventDraft) -> EventDraft:
    """A tool call with its arguments as they were exported: a tool that rewrites JSON may have
    spaced them out since."""
    fields = fields_of(draft.payload) if type(draft.payload).__name__ == "ActionSubmitted" else {}
    if "action" not in fields or kind_of(fields["action"]) != "ToolCall":
        return draft
    action = fields_in(fields["action"])
    text = again(action["args"])
    if text is None or text == bytes(action["args"]):
        return draft
    action["args"] = Raw(text)
    body = object_raw(fields | {"action": object_raw(action)})
    return replace(draft, payload=msgspec.json.decode(body, type=type(draft.payload)))


def _referring(draft: EventDraft, numbers: dict[int, int]) -> EventDraft:
    """The event, referring to another by its new number."""
    name = _REFERENCES.get(type(draft.payload).__name__, "")
    old = getattr(draft.payload, name, None)
    if old is None or numbers.get(old) == old:
        return draft
    return replace(draft, payload=replace(draft.payload, **{name: numbers.get(old)}))
