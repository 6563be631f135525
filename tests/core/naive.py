"""What is fixed for ever, written a second time, straight from its definition and slow.

`python -m tests.core.naive` writes the golden vectors from it. They may gain cases; none may change.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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


TAG: list[tuple[str, Callable[[Any], bytes]]] = [
    ("name", str.encode),
    ("log", lambda value: bytes.fromhex(value.replace("-", ""))),
    ("instance", lambda value: bytes.fromhex(value.replace("-", ""))),
    ("position", lambda value: value.to_bytes(8, "big")),
    ("root", bytes.fromhex),
    ("seal", bytes.fromhex),
    ("offsets", lambda value: b"".join(offset(*one) for one in value)),
    ("created_at", lambda value: micros(value).to_bytes(8, "big", signed=True)),
    ("why", str.encode),
]


def offset(topic: str, partition: int, following: int) -> bytes:
    return bytes.fromhex(topic.replace("-", "")) + partition.to_bytes(4, "big") + following.to_bytes(8, "big")


def micros(text: str) -> int:
    since = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ") - datetime(1970, 1, 1)
    return since // timedelta(microseconds=1)


def tag_bytes(tag: dict[str, Any]) -> bytes:
    """Over the JSON form of receipts and packs."""
    return concatenated(b"trajlog/tag/1\0", TAG, tag | {"offsets": tag["offsets"] or None})


def rotation_bytes(rotation: dict[str, str]) -> bytes:
    layout: list[tuple[str, Callable[[Any], bytes]]] = [
        (name, bytes.fromhex) for name in ("log_id", "instance_id", "old", "new")
    ]
    return concatenated(b"trajlog/rotation/1\0", layout, rotation)


def json_line(found: dict[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"


def signature(private: str, data: bytes) -> dict[str, str]:
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(private))
    return {"key": key.public_key().public_bytes_raw().hex(), "signature": key.sign(data).hex()}


def receipt(private: str, tag: dict[str, Any]) -> str:
    return json_line({"format": "trajlog/receipt/1", "tag": tag, **signature(private, tag_bytes(tag))})


def pack(private: str, tag: dict[str, Any], log: list[dict[str, Any]], positions: list[int]) -> list[str]:
    """The pack of the events at these positions of a log, whose root is put into the tag; version N of
    an event is how many of its stream stand up to there."""
    streams = [event["stream"] for event in log]
    versions = [streams[: i + 1].count(stream) for i, stream in enumerate(streams)]
    leaves = [
        version.to_bytes(8, "big") + bytes.fromhex(event_digest(event))
        for version, event in zip(versions, log, strict=True)
    ]
    tag = tag | {"position": len(log), "root": tree_root(leaves).hex()}
    head = {"format": "trajlog/pack/1", "events": len(positions), "tag": tag}
    lines = [json_line(head | signature(private, tag_bytes(tag)))]
    for position in positions:
        path = [node.hex() for node in inclusion_path(position - 1, leaves)]
        shown = {"position": position, "version": versions[position - 1], "path": path}
        lines.append(json_line(shown | {"event": event_json(log[position - 1])}))
    return lines


def event_json(event: dict[str, Any]) -> dict[str, Any]:
    names = "event_id stream writer run seq type schema occurred_at actor owner key_id causation_id correlation_id"
    found = {}
    for name in [*names.split(), "conversation", "body"]:
        if event.get(name) is not None:
            found[name] = event[name]
            if name in ("event_id", "run", "causation_id"):
                found[name] = str(UUID(event[name]))
            if name == "occurred_at":
                at = datetime(1970, 1, 1) + timedelta(microseconds=event[name])
                found[name] = at.isoformat(timespec="microseconds") + "Z"
    return found


def hashed(label: bytes, layout: list[tuple[str, Callable[[Any], bytes]]], fields: dict[str, Any]) -> str:
    return sha256(concatenated(label, layout, fields)).hexdigest()


def concatenated(label: bytes, layout: list[tuple[str, Callable[[Any], bytes]]], fields: dict[str, Any]) -> bytes:
    data = label
    for tag, (name, encode) in enumerate(layout, start=1):
        if fields.get(name) is not None:
            data += field(tag, encode(fields[name]))
    return data


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
ANONYMOUS: dict[str, Any] = {
    "name": None,
    "log": "11111111-1111-1111-1111-111111111111",
    "instance": "22222222-2222-2222-2222-222222222222",
    "position": 1,
    "root": "33" * 32,
    "seal": None,
    "offsets": [],
    "created_at": "2026-01-02T03:04:05.000006Z",
    "why": None,
}
TAGS = [
    ANONYMOUS,
    ANONYMOUS | {"name": "release-1"},
    ANONYMOUS | {"name": "r", "why": ""},
    ANONYMOUS | {"name": "a", "why": "b"},
    ANONYMOUS | {"name": "ab", "why": '\u2028 電\u0001\\"/\x7f'},
    ANONYMOUS | {"position": 2**63 - 1, "seal": "44" * 32, "created_at": "0001-01-01T00:00:00.000000Z"},
    ANONYMOUS | {"created_at": "9999-12-31T23:59:59.999999Z"},
    ANONYMOUS | {"offsets": [["55" * 4 + "-5555" * 3 + "-" + "55" * 6, 0, 0]]},
    ANONYMOUS
    | {
        "offsets": [
            ["55" * 4 + "-5555" * 3 + "-" + "55" * 6, 3, 2**63 - 1],
            ["66" * 4 + "-6666" * 3 + "-" + "66" * 6, 0, 7],
        ]
    },
]
ROTATIONS = [{"log_id": "11" * 16, "instance_id": "22" * 16, "old": "33" * 32, "new": "44" * 32}]
PRIVATE = "77" * 32
PROVEN = [{**MINIMAL, "event_id": f"{i:032x}", "stream": f"episode/{i % 3}", "seq": i} for i in range(1, 12)]
LOG = [{**event, "stream": "episode/other"} for event in EVENTS] + PROVEN
PACKS: list[tuple[dict[str, Any], list[dict[str, Any]], list[int]]] = [
    (ANONYMOUS, EVENTS[:1], [1]),
    (TAGS[4], LOG, [*range(1, len(EVENTS) + 1)]),
    (TAGS[8], LOG, [len(EVENTS) + i for i in (2, 5, 8, 11)]),
]
SIZES = [*range(21), 255, 256, 257, 65_537]
PARTS = [[], [""], ["", ""], ["6162", "63"], ["61", "6263"], ["00" * 1000]]


def golden() -> dict[str, list[dict[str, Any]]]:
    leaves = [leaf(position) for position in range(1, max(SIZES) + 1)]
    return {
        "events": [{"event": event, "digest": event_digest(event)} for event in EVENTS],
        "segments": [{"segment": segment, "seal": segment_seal(segment)} for segment in SEGMENTS],
        "roots": [{"size": size, "root": tree_root(leaves[:size]).hex()} for size in SIZES],
        "tags": [{"tag": tag, "bytes": tag_bytes(tag).hex(), "receipt": receipt(PRIVATE, tag)} for tag in TAGS],
        "rotations": [{"rotation": one, "bytes": rotation_bytes(one).hex()} for one in ROTATIONS],
        "packs": [{"pack": pack(PRIVATE, *one)} for one in PACKS],
        "ids": [{"parts": parts, "uuid8": uuid8(parts), "episode": episode_id(parts)} for parts in PARTS],
    }


def read(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    return found


if __name__ == "__main__":
    for name, vectors in golden().items():
        (GOLDEN / f"{name}.json").write_text(json.dumps(vectors, indent=1, ensure_ascii=True) + "\n", "utf-8")
