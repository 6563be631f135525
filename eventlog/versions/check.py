"""Checking proof packs: no database, no network, and nothing believed but a key or receipt from elsewhere."""

from collections.abc import Iterable
from typing import Any

import msgspec

from core.errors import Corrupt
from core.proof import Proven, prove, read_head
from core.tag import Receipt, tag_bytes
from eventlog.versions.keys import signed


class Checked(msgspec.Struct, frozen=True):
    """What checking a pack found: how many events are proven, under which tag (None: a root signed for
    the pack alone), and whether the tag was compared with something from elsewhere. `fault`: why not `ok`."""

    ok: bool
    events: int
    tag: str | None
    anchored: bool
    fault: str | None = None
    first: Proven | None = None
    last: Proven | None = None
    receipt: Receipt | None = None


def check(lines: Iterable[bytes], *, key: bytes | None = None, receipt: Receipt | None = None) -> Checked:
    """Check a pack, given its lines, against a public key or a receipt that came another way."""
    source = iter(lines)
    seen: dict[str, Any] = {"events": 0, "tag": None}
    try:
        head = read_head(next(source, b""))
        seen |= {"tag": head.receipt.tag.name, "receipt": head.receipt}
        _authentic(head.receipt, key, receipt)
        for proven in prove(head, source):
            seen["events"] += 1
            seen.setdefault("first", proven)
            seen["last"] = proven
    except Corrupt as error:
        return Checked(ok=False, anchored=False, fault=str(error), **seen)
    return Checked(ok=True, anchored=key is not None or receipt is not None, **seen)


def _authentic(found: Receipt, key: bytes | None, receipt: Receipt | None) -> None:
    """`Corrupt` unless the tag is signed, by the key or under the receipt that it must agree with."""
    if not signed(found.key, tag_bytes(found.tag), found.signature):
        raise Corrupt("the signature is not that of what the tag says", where="line 1")
    if key is not None and found.key != key:
        raise Corrupt(f"signed by another key, {found.key.hex()}", where="line 1")
    if receipt is None:
        return
    if found.tag.log_id != receipt.tag.log_id:
        raise Corrupt("of another log than the receipt", where="line 1")
    if found.tag.position == receipt.tag.position:
        if found.tag.root != receipt.tag.root:
            raise Corrupt(f"another root at position {found.tag.position} than the receipt's", where="line 1")
    elif found.key != receipt.key:
        raise Corrupt(
            "neither under the receipt's root nor signed by its key",
            where="line 1",
            mend=f"ask for one made with --tag {receipt.tag.name}",
        )
