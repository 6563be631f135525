"""Identifiers: 16 raw bytes inside, UUID text outside.

Live events and episodes get UUIDv7, which sort by time. Imported ones get UUIDv8, which follow from
their content alone: the same record imported twice has the same ids.
"""

import re
from hashlib import sha256
from typing import TYPE_CHECKING

from core.errors import BadEvent

if TYPE_CHECKING:
    from hashlib import _Hash

    Begun = _Hash

_UUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")

_VERSION_8 = 0x8000_8000_0000_0000_0000
_FREE = ~0xF000_C000_0000_0000_0000
"""The bits of an id that follow from its content, and those that say what it is."""


def uuid7() -> bytes:
    """A new id; later ones of this process sort after it."""
    import uuid_utils  # reading commands make no ids

    return uuid_utils.uuid7().bytes


def uuid8(*parts: bytes) -> bytes:
    """The id that follows from `parts`: SHA-256 over each one's length (u64) and bytes, cut to 16
    bytes, with RFC 9562's version and variant bits set."""
    return uuid8_of(begun(*parts))


def episode_id(*parts: bytes) -> str:
    """The id of an imported episode, from what identifies its record: 16 hex digits."""
    return episode_id_of(begun(EPISODE, *parts))


# Of many ids that begin alike, the beginning is hashed once.

EPISODE = b"trajlog/episode/1"
"""The first part of what an episode's id follows from."""


def begun(*parts: bytes) -> "Begun":
    """The hash of the parts so far."""
    return sha256(b"".join([len(part).to_bytes(8, "big") + part for part in parts]))


def then(begun: "Begun", part: bytes) -> "Begun":
    """The hash of these parts and one more; what was begun can be gone on with again."""
    more = begun.copy()
    more.update(len(part).to_bytes(8, "big") + part)
    return more


def uuid8_of(begun: "Begun") -> bytes:
    """`uuid8` of the parts of a hash."""
    return (int.from_bytes(begun.digest()[:16]) & _FREE | _VERSION_8).to_bytes(16)


def episode_id_of(begun: "Begun") -> str:
    """`episode_id` of the parts of a hash, `EPISODE` the first of them."""
    return begun.hexdigest()[:16]


def uuid_text(raw: bytes) -> str:
    """`0192d3c4-…`: lower-case, with dashes."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def uuid_bytes(text: str, *, where: str | None = None) -> bytes:
    """The 16 bytes of a UUID, with or without dashes. BadEvent if it is none."""
    if len(text) == 36 and text[8:24:5] == "----":  # as we write it; white space would leave fewer bytes
        try:
            raw = bytes.fromhex(text.replace("-", ""))
        except ValueError:
            raw = b""
        if len(raw) == 16:
            return raw
    if not _UUID.fullmatch(text):
        raise BadEvent(
            f"{text[:80]!r} is not a UUID", where=where, mend="write it like 0192d3c4-0000-7000-8000-000000000001"
        )
    return bytes.fromhex(text.replace("-", ""))
