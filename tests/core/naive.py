"""What is fixed for ever, written a second time, straight from its definition and slow.

`python -m tests.core.naive` writes the golden vectors from it. They may gain cases; none may change.
"""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"


def field(tag: int, value: bytes) -> bytes:
    return bytes([tag]) + len(value).to_bytes(4, "big") + value


def event_digest(event: dict[str, Any]) -> str:
    """Over the JSON form of the golden vectors: ids in hex, times as integers, the body as text."""
    layout: list[tuple[str, Callable[[Any], bytes]]] = [
        ("event_id", bytes.fromhex),
        ("stream", str.encode),
        ("writer", str.encode),
        ("run", bytes.fromhex),
        ("seq", lambda value: value.to_bytes(8, "big")),
        ("type", str.encode),
        ("schema", lambda value: value.to_bytes(4, "big")),
        ("occurred_at", lambda value: value.to_bytes(8, "big", signed=True)),
        ("actor", str.encode),
        ("owner", str.encode),
        ("key_id", str.encode),
        ("causation_id", bytes.fromhex),
        ("correlation_id", str.encode),
        ("conversation", str.encode),
        ("body", str.encode),
    ]
    return hashed(b"trajlog/event/1\0", layout, event)


def segment_seal(segment: dict[str, Any]) -> str:
    layout: list[tuple[str, Callable[[Any], bytes]]] = [
        ("previous", bytes.fromhex),
        ("first_position", lambda value: value.to_bytes(8, "big")),
        ("last_position", lambda value: value.to_bytes(8, "big")),
        ("topic_id", bytes.fromhex),
        ("partition", lambda value: value.to_bytes(4, "big")),
        ("first_offset", lambda value: value.to_bytes(8, "big")),
        ("next_offset", lambda value: value.to_bytes(8, "big")),
        ("committed_at", lambda value: value.to_bytes(8, "big", signed=True)),
    ]
    return hashed(b"trajlog/segment/1\0", layout, segment)


def hashed(label: bytes, layout: list[tuple[str, Callable[[Any], bytes]]], fields: dict[str, Any]) -> str:
    data = label
    for tag, (name, encode) in enumerate(layout, start=1):
        if fields.get(name) is not None:
            data += field(tag, encode(fields[name]))
    return sha256(data).hexdigest()


def leaf(position: int) -> bytes:
    """The data of an invented event: its version is its position, its digest SHA-256 of that in decimal."""
    return position.to_bytes(8, "big") + sha256(str(position).encode()).digest()


def tree_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162, section 2.1.1."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\0" + leaves[0]).digest()
    k = split(len(leaves))
    return sha256(b"\1" + tree_root(leaves[:k]) + tree_root(leaves[k:])).digest()


def inclusion_path(m: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 9162, section 2.1.3.1."""
    if len(leaves) == 1:
        return []
    k = split(len(leaves))
    if m < k:
        return [*inclusion_path(m, leaves[:k]), tree_root(leaves[k:])]
    return [*inclusion_path(m - k, leaves[k:]), tree_root(leaves[:k])]


def consistency_path(m: int, leaves: list[bytes], whole: bool = True) -> list[bytes]:
    """SUBPROOF of RFC 9162, section 2.1.4.1."""
    if m == len(leaves):
        return [] if whole else [tree_root(leaves)]
    k = split(len(leaves))
    if m <= k:
        return [*consistency_path(m, leaves[:k], whole), tree_root(leaves[k:])]
    return [*consistency_path(m - k, leaves[k:], False), tree_root(leaves[:k])]


def split(n: int) -> int:
    """The largest power of two smaller than n."""
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def prefixed(parts: list[str]) -> bytes:
    return b"".join(len(bytes.fromhex(part)).to_bytes(8, "big") + bytes.fromhex(part) for part in parts)


def episode_id(parts: list[str]) -> str:
    return sha256(prefixed([b"trajlog/episode/1".hex(), *parts])).hexdigest()[:16]


def uuid8(parts: list[str]) -> str:
    bits = int.from_bytes(sha256(prefixed(parts)).digest()[:16], "big")
    bits = bits & ~(0xF << 76) | 8 << 76
    bits = bits & ~(0b11 << 62) | 0b10 << 62
    return f"{bits:032x}"


MINIMAL = {
    "event_id": "0192d3c4000070008000000000000001",
    "stream": "episode/1",
    "writer": "w",
    "run": "00000000000000000000000000000000",
    "seq": 1,
    "type": "NoteAdded",
    "schema": 1,
    "body": "{}",
}
FULL = {
    **MINIMAL,
    "run": "ffffffffffffffffffffffffffffffff",
    "seq": 2**63 - 1,
    "schema": 2**31 - 1,
    "occurred_at": 1_767_323_045_000_006,
    "actor": "planner",
    "owner": "owner-7",
    "key_id": "k-7",
    "causation_id": "0192d3c4000070008000000000000000",
    "correlation_id": "episode-1",
    "conversation": "talk-1",
    "body": '{"open": {"step":1}, "sealed": "AAAA"}',
}
EVENTS = [
    MINIMAL,
    FULL,
    {**MINIMAL, "actor": ""},
    {**MINIMAL, "occurred_at": 0},
    {**MINIMAL, "occurred_at": -62_135_596_800_000_000},
    {**MINIMAL, "occurred_at": 253_402_300_799_999_999},
    {**MINIMAL, "stream": "episode/é"},
    {**MINIMAL, "stream": "episode/e\u0301"},
    {**MINIMAL, "body": '{"text":"\\u0000 \\ud83d\\ude00 😀 电话"}'},
    {**MINIMAL, "body": '{ "a":1.0,\n"a" : 1e0 }'},
    {**MINIMAL, "stream": "ab", "writer": "c"},
    {**MINIMAL, "stream": "a", "writer": "bc"},
]
SEGMENTS: list[dict[str, Any]] = [
    {"first_position": 1, "last_position": 1, "committed_at": 1_767_323_045_000_006},
    {"previous": "11" * 32, "first_position": 2, "last_position": 50_001, "committed_at": 1_767_323_045_000_007},
    {"previous": "22" * 32, "first_position": 2, "last_position": 2**63 - 1, "committed_at": -1},
    {
        "previous": "33" * 32,
        "first_position": 7,
        "last_position": 9,
        "topic_id": "44" * 16,
        "partition": 0,
        "first_offset": 0,
        "next_offset": 3,
        "committed_at": 0,
    },
]
SIZES = [*range(21), 255, 256, 257, 65_537]
PARTS = [[], [""], ["", ""], ["6162", "63"], ["61", "6263"], ["00" * 1000]]


def golden() -> dict[str, list[dict[str, Any]]]:
    leaves = [leaf(position) for position in range(1, max(SIZES) + 1)]
    return {
        "events": [{"event": event, "digest": event_digest(event)} for event in EVENTS],
        "segments": [{"segment": segment, "seal": segment_seal(segment)} for segment in SEGMENTS],
        "roots": [{"size": size, "root": tree_root(leaves[:size]).hex()} for size in SIZES],
        "ids": [{"parts": parts, "uuid8": uuid8(parts), "episode": episode_id(parts)} for parts in PARTS],
    }


def read(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


if __name__ == "__main__":
    for name, vectors in golden().items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(vectors, indent=1, ensure_ascii=True) + "\n", "utf-8")
