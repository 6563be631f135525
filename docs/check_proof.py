"""Check a trajlog proof pack: python check_proof.py PACK [PUBLIC KEY]

Written from RFC 9162 and proofs.md, for those who would rather read a checker than trust one. It needs
Python alone, and the package `cryptography` for the signature, which is looked at if a key is given.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from uuid import UUID

EVENT = (
    "event_id:uuid stream:text writer:text run:uuid seq:u64 type:text schema:u32 occurred_at:time actor:text "
    "owner:text key_id:text causation_id:uuid correlation_id:text conversation:text body:text"
)
TAG = "name:text log:uuid instance:uuid position:u64 root:hex seal:hex offsets:list created_at:time why:text"


def need(true, value=None, what="not as it was written"):
    if not true:
        raise ValueError(what)
    return value


def time(text):
    at = datetime.fromisoformat(text)
    micros = (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    again = at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return need(again == text, micros.to_bytes(8, "big", signed=True))


BYTES = {  # of each kind of value; each is written in one way, and no other is taken
    "text": str.encode,
    "u32": lambda number: number.to_bytes(4, "big"),
    "u64": lambda number: number.to_bytes(8, "big"),
    "uuid": lambda text: need(str(UUID(text)) == text, UUID(text).bytes),
    "hex": lambda text: need(bytes.fromhex(text).hex() == text, bytes.fromhex(text)),
    "time": time,
    "list": lambda found: b"".join(BYTES["uuid"](t) + BYTES["u32"](p) + BYTES["u64"](n) for t, p, n in found),
}


def fields(label, layout, found):
    """What is hashed or signed: a label, a zero byte, and of each field that is there number, length, bytes."""
    kinds = dict(field.split(":") for field in layout.split())
    data = need(list(found) == [name for name in kinds if name in found], label + b"\0")
    for number, (name, kind) in enumerate(kinds.items(), 1):
        if found.get(name) not in (None, []):
            value = BYTES[kind](found[name])
            data += bytes([number]) + len(value).to_bytes(4, "big") + value
    return data


def read(line, *names):
    found = json.loads(line)
    need(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode() + b"\n" == line)
    return need(tuple(found) == names, found.values())


def climb(node, index, size, path):
    """The root that an inclusion proof leads to: RFC 9162, 2.1.3.2."""
    last = need(0 <= index < size, size - 1, "not in the tree")
    for sibling in map(BYTES["hex"], path):
        need(last and len(sibling) == 32, what="not a proof")
        right = index & 1 or index == last
        node = sha256(b"\1" + (sibling + node if right else node + sibling)).digest()
        while right and index and not index & 1:
            index, last = index >> 1, last >> 1
        index, last = index >> 1, last >> 1
    return need(last == 0, node, "not a proof")


def check(lines, key=None):
    """The stream and version proven last; whatever is raised, the pack proves nothing."""
    form, events, tag, public, signature = read(next(lines), "format", "events", "tag", "key", "signature")
    need(form == "trajlog/pack/1" and len(tag) == 9)
    statement, where = fields(b"trajlog/tag/1", TAG, tag), None
    if key is not None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        need(key == public, what="signed by another key")
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(BYTES["hex"](signature), statement)
    for number, line in enumerate(lines, 1):
        position, version, path, event = read(line, "position", "version", "path", "event")
        need(number <= events and None not in event.values() and where in (None, (event["stream"], version - 1)))
        leaf = b"\0" + BYTES["u64"](version) + sha256(fields(b"trajlog/event/1", EVENT, event)).digest()
        root = climb(sha256(leaf).digest(), position - 1, tag["position"], path)
        where = need(root.hex() == tag["root"], (event["stream"], version), "not under the root")
    return need(where and number == events, where, "events are missing")


if __name__ == "__main__":
    try:
        found = check(iter(Path(sys.argv[1]).read_bytes().splitlines(keepends=True)), *sys.argv[2:3])
    except Exception as error:
        sys.exit(f"it proves nothing: {error!r}" if sys.argv[1:] else __doc__)
    print("{} is proven up to version {}".format(*found))
