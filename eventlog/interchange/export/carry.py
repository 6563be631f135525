"""Works out what to carry of an episode that a format cannot hold all of."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from core.times import to_text
from eventlog.interchange.export.carried import NESTED, VERSION, again, canonical, digest_of, fields_in, kind_of
from eventlog.interchange.export.recorded import Recorded
from eventlog.interchange.whole import Fetch, is_text, references


def to_carry(
    plain: Sequence[Recorded], wanted: Sequence[Recorded], places: Sequence[int | None], episode: str
) -> dict[str, Any]:
    """What to carry of an episode. `places`: which of `wanted` each event of the plain reading is, None
    if none."""
    assert len(plain) == len(places), "an exporter and its importer disagree"
    at = {place: index for index, place in enumerate(places) if place is not None}
    order = [at[place] for place in sorted(at)]
    found: dict[str, Any] = {"version": VERSION, "episode": episode} | _origin(wanted[0])
    entries = []
    for place, recorded in enumerate(wanted):
        index = at.get(place)
        entry = _whole(recorded) if index is None else _difference(_renumbered(plain[index], places), recorded)
        if entry:
            fits = {} if index is None else {"fits": digest_of(plain[index])}
            entries.append({"version": place + 1} | fits | entry)
    if entries:
        found["events"] = entries
    if order != sorted(order):
        found["order"] = order
    dropped = [index for index, place in enumerate(places) if place is None]
    if dropped:
        found["drop"] = dropped
    return found


def texts(carried: dict[str, Any], document: bytes, fetch: Fetch) -> dict[str, str]:
    """The texts that carried events refer to, by address, those left out that the document holds."""
    found: dict[str, str] = {}
    for blob in references(msgspec.json.decode(msgspec.json.encode(carried.get("events", [])))):
        data = fetch(blob.address) if is_text(blob) and blob.address not in found else None
        try:
            text = None if data is None else data.decode()
        except UnicodeDecodeError:
            continue
        if text is not None and msgspec.json.encode(text) not in document:
            found[blob.address] = text
    return found


def _origin(started: Recorded) -> dict[str, Any]:
    """Where the episode was imported from, for whoever asks; an import does not take it back."""
    origin = getattr(started.payload, "origin", None)
    if origin is None:
        return {}
    return {"origin": {"format": origin.format, "where": origin.where, "record": origin.record.address}}


def _whole(recorded: Recorded) -> dict[str, Any]:
    """An event that the format has no place for."""
    entry: dict[str, Any] = {"type": recorded.type}
    if recorded.schema != 1:
        entry["schema"] = recorded.schema
    entry["payload"] = recorded.fields
    if recorded.occurred_at is not None:
        entry["occurred_at"] = to_text(recorded.occurred_at)
    if recorded.actor is not None:
        entry["actor"] = recorded.actor
    if recorded.conversation is not None:
        entry["conversation"] = recorded.conversation
    return entry


def _difference(plain: Recorded, wanted: Recorded) -> dict[str, Any]:
    """What turns the plain reading into the event; empty if nothing need be done."""
    entry: dict[str, Any] = {}
    if (plain.type, plain.schema) != (wanted.type, wanted.schema):
        entry = {"type": wanted.type, "payload": wanted.fields}
        if wanted.schema != 1:
            entry["schema"] = wanted.schema
    else:
        put: dict[str, Raw] = {}
        unset: list[str] = []
        args = _compare(plain.fields, wanted.fields, put, unset)
        if put:
            entry["set"] = put
        if unset:
            entry["unset"] = unset
        if args is not None:
            entry["args"] = args
    if plain.occurred_at != wanted.occurred_at:
        entry["occurred_at"] = None if wanted.occurred_at is None else to_text(wanted.occurred_at)
    if plain.actor != wanted.actor:
        entry["actor"] = wanted.actor
    if plain.conversation != wanted.conversation:
        entry["conversation"] = wanted.conversation
    return entry


def _compare(
    old: dict[str, Raw], new: dict[str, Raw], put: dict[str, Raw], unset: list[str], within: str = ""
) -> str | None:
    """Collect what differs; returns the argument text if it must be carried."""
    args = None
    for name, raw in new.items():
        path = within + name
        had = old.get(name)
        if path == "action.args":
            text = bytes(raw)
            if had is None or bytes(had) != text or again(raw) != text:
                args = text.decode()
        elif had is not None and not within and name in NESTED and kind_of(had) == kind_of(raw) is not None:
            args = _compare(fields_in(had), fields_in(raw), put, unset, f"{name}.")
        elif had is None or not _same(had, raw):
            put[path] = raw
    unset += [within + name for name in old if name not in new]
    return args


def _renumbered(plain: Recorded, places: Sequence[int | None]) -> Recorded:
    """A plain event with the version it refers to as in the episode."""
    raw = plain.fields.get("action")
    if plain.type != "FeedbackRecorded" or raw is None:
        return plain
    place = places[int(bytes(raw)) - 1]
    rest = {name: value for name, value in plain.fields.items() if name != "action"}
    return plain._replace(fields=rest if place is None else plain.fields | {"action": Raw(b"%d" % (place + 1))})


def _same(old: Raw, new: Raw) -> bool:
    return bytes(old) == bytes(new) or canonical(old) == canonical(new)
