"""What a format has no place for, carried as `trajlog` in its `extra` and taken back from there.

An exporter writes what its format holds, and reads that with the format's own importer. Where this
plain reading differs from the episode, the difference is carried; what the format has no place for at
all (ends, verdicts, notes) is carried whole. So an import gives back what was exported.

`{version, episode, origin?, events, order?, drop?, filled?, blobs?}`: an entry of `events` says what to change in the
plain reading of one event (`set`, `unset`, `args`: the argument text where a parser would not give it
back), or is a whole event. `fits` is a digest of the plain reading it belongs to: after an edit of
the file, the file counts and the entry does not. `order` are the events of the plain reading in their
true order, `drop` those that only the format needs, `filled` fields that were made up, `blobs` texts that
the entries refer to.
"""

from hashlib import sha256
from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from eventlog.interchange.export.recorded import Recorded
from eventlog.interchange.mapping.lenient import inner
from eventlog.interchange.mapping.messages import Fields, joined

NAME: Final = "trajlog"
VERSION: Final = 1

NESTED: Final = frozenset({"action", "feedback"})
"""Fields of events that are compared field by field."""

fields_in = msgspec.json.Decoder(dict[str, Raw]).decode


class Entry(Struct):
    """What is carried of one event; `version` is its place in the episode."""

    version: int
    fits: str | None = None
    type: str | None = None
    schema: int = 1
    payload: dict[str, Raw] = {}
    put: dict[str, Raw] = field(default_factory=dict, name="set")
    unset: list[str] = []
    args: str | None = None
    occurred_at: str | UnsetType | None = UNSET
    actor: str | UnsetType | None = UNSET
    conversation: str | UnsetType | None = UNSET


class Carried(Struct):
    """All that is carried of one episode."""

    version: int
    episode: str | None = None
    events: list[Entry] = []
    order: list[int] | None = None
    drop: list[int] = []
    filled: list[str] = []
    blobs: dict[str, str] = {}


def read(raw: Raw | None) -> Carried | None:
    """What was carried; None if there is nothing that this version can read."""
    if raw is None:
        return None
    try:
        carried = msgspec.json.decode(raw, type=Carried)
    except (ValueError, RecursionError):
        return None
    return carried if carried.version == VERSION else None


def take(root: Fields) -> Carried | None:
    """What was carried in the `extra` of a record's root, taken out of there; None if there is nothing
    that this version can read, which stays."""
    extra = inner(root, "extra")
    if extra is None:
        return None
    held = extra.raw(NAME)
    carried = read(held)
    if held is not None and carried is None:
        extra.put(NAME, held)
    return carried


def digest_of(plain: Recorded) -> str:
    """A digest of what the file itself says of an event, however its JSON is laid out."""
    fields = {name: raw for name, raw in plain.fields.items() if (plain.type, name) != ("FeedbackRecorded", "action")}
    return sha256(plain.type.encode() + b"\0" + canonical(object_raw(fields))).hexdigest()[:12]


def object_raw(fields: dict[str, Raw]) -> Raw:
    text = joined(fields)
    return text if isinstance(text, Raw) else Raw(b"{}")


def again(raw: Raw) -> bytes | None:
    """The JSON as it comes back from a parser; None if none gives it back."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw))
    except (ValueError, OverflowError, RecursionError):
        return None


def canonical(raw: Raw) -> bytes:
    """The JSON in the one form that all its layouts have."""
    value = msgspec.json.decode(raw)
    try:
        return msgspec.json.encode(value, order="sorted")
    except (ValueError, OverflowError, RecursionError):
        import json

        return json.dumps(value, sort_keys=True).encode()


def kind_of(raw: Raw) -> str | None:
    """The tag of a struct in a payload; None if it is none."""
    if not bytes(raw).startswith(b"{"):
        return None
    kind = fields_in(raw).get("kind")
    return None if kind is None else bytes(kind).decode()
