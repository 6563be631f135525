"""A tag: a signed statement that the log was this up to a position. What is signed is fixed for ever.

The signature is Ed25519 over `trajlog/tag/1`, a zero byte and fields encoded as `core.digest` does.
A tag outside the log is a receipt: one line of JSON, in one form only, so that every byte counts.
Golden vectors: tests/core/golden.
"""

import json
import struct
from collections.abc import Iterable
from typing import Final
from uuid import UUID

import msgspec

from core.digest import fields
from core.errors import BadRecord, TrajlogError
from core.identity import uuid_text
from core.times import from_text, to_text

TAG_LABEL: Final = b"trajlog/tag/1\0"
ROTATION_LABEL: Final = b"trajlog/rotation/1\0"
RECEIPT: Final = "trajlog/receipt/1"
MISREAD: Final = (
    msgspec.MsgspecError,
    struct.error,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    TrajlogError,
)
"""What reading may raise, whatever the bytes."""

Offset = tuple[bytes, int, int]
"""(topic id, partition, next offset)."""


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """The first `position` events of a log have this `root`. `name` is null for a root that was signed
    for a proof alone. `seal` is of the last segment that ends at or before the position; `offsets`
    ascend by topic and partition; `created_at` is µs since 1970."""

    name: str | None
    log_id: bytes
    instance_id: bytes
    position: int
    root: bytes
    seal: bytes | None
    offsets: tuple[Offset, ...]
    created_at: int
    why: str | None


class Receipt(msgspec.Struct, frozen=True):
    """A tag with the public key (32 bytes) and the signature (64 bytes) it was signed with."""

    tag: Tag
    key: bytes
    signature: bytes


def tag_bytes(tag: Tag) -> bytes:
    """The bytes that are signed. Tags: 1 name, 2 log_id, 3 instance_id, 4 position u64, 5 root, 6 seal,
    7 offsets (each: topic id, partition u32, next offset u64), 8 created_at i64, 9 why."""
    return TAG_LABEL + fields(
        [
            (1, None if tag.name is None else tag.name.encode()),
            (2, tag.log_id),
            (3, tag.instance_id),
            (4, tag.position.to_bytes(8, "big")),
            (5, tag.root),
            (6, tag.seal),
            (7, offsets_bytes(tag.offsets) if tag.offsets else None),
            (8, tag.created_at.to_bytes(8, "big", signed=True)),
            (9, None if tag.why is None else tag.why.encode()),
        ]
    )


def rotation_bytes(log_id: bytes, instance_id: bytes, old: bytes, new: bytes) -> bytes:
    """What the old key signs to name its successor, and the new key to accept it. Tags: 1 log_id,
    2 instance_id, 3 the old public key, 4 the new one."""
    return ROTATION_LABEL + fields([(1, log_id), (2, instance_id), (3, old), (4, new)])


def offsets_bytes(offsets: Iterable[Offset]) -> bytes:
    """`(topic id, partition, next offset)` of each source partition, one after the other."""
    return b"".join(topic + partition.to_bytes(4, "big") + n.to_bytes(8, "big") for topic, partition, n in offsets)


def read_offsets(data: bytes) -> tuple[Offset, ...]:
    """The inverse of `offsets_bytes`."""
    parts = [data[i : i + 28] for i in range(0, len(data), 28)]
    return tuple((p[:16], int.from_bytes(p[16:20], "big"), int.from_bytes(p[20:], "big")) for p in parts)


class TagJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tag in JSON: ids as UUIDs, hashes in hex, times in RFC 3339."""

    name: str | None
    log: str
    instance: str
    position: int
    root: str
    seal: str | None
    offsets: list[tuple[str, int, int]]
    created_at: str
    why: str | None


class ReceiptJson(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A receipt as a file."""

    format: str
    tag: TagJson
    key: str
    signature: str


def receipt_line(receipt: Receipt) -> bytes:
    """The receipt as a file: one line of JSON."""
    return line(ReceiptJson(RECEIPT, tag_json(receipt.tag), receipt.key.hex(), receipt.signature.hex()))


def read_receipt(data: bytes) -> Receipt:
    """A receipt from its file; `BadRecord` unless the bytes are exactly those of one. Its signature is
    not looked at."""
    try:
        found = _decode_receipt(data)
        receipt = read_signed(found.tag, found.key, found.signature)
        if receipt_line(receipt) != data:
            raise ValueError("it is not written as a receipt is")
    except MISREAD as error:
        raise BadRecord(f"not a receipt, or an altered one ({reason(error)})", mend="use it as it was made") from None
    return receipt


def tag_json(tag: Tag) -> TagJson:
    """The tag as it is written in JSON."""
    return TagJson(
        name=tag.name,
        log=uuid_text(tag.log_id),
        instance=uuid_text(tag.instance_id),
        position=tag.position,
        root=tag.root.hex(),
        seal=None if tag.seal is None else tag.seal.hex(),
        offsets=[(uuid_text(topic), partition, n) for topic, partition, n in tag.offsets],
        created_at=to_text(tag.created_at),
        why=tag.why,
    )


def read_signed(tag: TagJson, key: str, signature: str) -> Receipt:
    """The inverse of `tag_json`, with the key and signature beside it; one of `MISREAD` if it is none."""
    found = Tag(
        name=tag.name,
        log_id=UUID(tag.log).bytes,
        instance_id=UUID(tag.instance).bytes,
        position=tag.position,
        root=unhex(tag.root, 32),
        seal=None if tag.seal is None else unhex(tag.seal, 32),
        offsets=tuple((UUID(topic).bytes, partition, n) for topic, partition, n in tag.offsets),
        created_at=from_text(tag.created_at),
        why=tag.why,
    )
    tag_bytes(found)  # numbers that no tag can have end here
    return Receipt(found, unhex(key, 32), unhex(signature, 64))


def unhex(text: str, size: int) -> bytes:
    """The bytes of a hash, key or signature in hex; `ValueError` unless there are `size`."""
    data = bytes.fromhex(text)
    if len(data) != size:
        raise ValueError(f"{text[:20]!r} is not {size} bytes in hex")
    return data


def line(found: msgspec.Struct) -> bytes:
    """JSON in the one form that receipts and packs have: as Python's `json.dumps(…, ensure_ascii=False,
    separators=(",", ":"))` writes it, and a line feed."""
    return json.dumps(msgspec.to_builtins(found), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def reason(error: Exception) -> str:
    """An error of reading in a few words."""
    return " ".join(str(error).split())[:120] or type(error).__name__


_decode_receipt = msgspec.json.Decoder(ReceiptJson).decode
