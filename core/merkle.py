"""The Merkle tree over the log, as RFC 9162 (section 2.1) has it.

Position p, from 1, is leaf p-1; its data is `version u64 ‖ digest`. The root is defined at every
size, whatever the commits were. Pure: nodes come from a `Nodes` callback, so that a store may keep
whole tiles of 256 leaves and recompute only the edge.
"""

from collections.abc import Callable, Sequence
from hashlib import sha256

from core.errors import Corrupt

EMPTY_ROOT = sha256(b"").digest()
TILE = 256
TILE_BITS = 8

Nodes = Callable[[int, int], bytes]
"""`nodes(level, index)`: the hash of the complete subtree over leaves [index·2^level, (index+1)·2^level)."""


def leaf_hash(version: int, digest: bytes) -> bytes:
    """SHA-256(0x00 ‖ version u64 ‖ digest)."""
    return sha256(b"\0" + version.to_bytes(8, "big") + digest).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """SHA-256(0x01 ‖ left ‖ right)."""
    return sha256(b"\1" + left + right).digest()


def subtree_root(hashes: Sequence[bytes]) -> bytes:
    """Root over 1 or more sibling hashes of one level, split at powers of two as RFC 9162 does."""
    level = list(hashes)
    while len(level) > 1:
        paired = [sha256(b"\1" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)]
        if len(level) % 2:
            paired.append(level[-1])
        level = paired
    return level[0]


def split_tile(hashes: bytes) -> list[bytes]:
    """The 32-byte hashes of a stored tile, in order."""
    return [hashes[i : i + 32] for i in range(0, len(hashes), 32)]


def root(size: int, nodes: Nodes) -> bytes:
    """Root of the tree over the first `size` leaves."""
    if size == 0:
        return EMPTY_ROOT
    return _fold_right([nodes(level, index) for level, index in _peaks(size)])


def inclusion_proof(index: int, size: int, nodes: Nodes) -> list[bytes]:
    """RFC 9162 2.1.3.1: the audit path of leaf `index` (from 0) in the tree of `size` leaves."""
    if not 0 <= index < size:
        raise ValueError(f"leaf {index} is not in a tree of {size}")
    return _path(index, 0, size, nodes)


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root_hash: bytes) -> bool:
    """RFC 9162 2.1.3.2."""
    if not 0 <= index < size:
        return False
    fn, sn, node = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            node = node_hash(sibling, node)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            node = node_hash(node, sibling)
        fn >>= 1
        sn >>= 1
    return sn == 0 and node == root_hash


def consistency_proof(old: int, new: int, nodes: Nodes) -> list[bytes]:
    """RFC 9162 2.1.4.1: proof that the tree of `old` leaves is a prefix of the tree of `new`."""
    if not 0 < old <= new:
        raise ValueError(f"no consistency proof from {old} to {new}")
    return [] if old == new else _subproof(old, 0, new, True, nodes)


def verify_consistency(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """RFC 9162 2.1.4.2."""
    if not 0 < old <= new:
        return False
    if old == new:
        return not proof and old_root == new_root
    path = list(proof)
    if old & (old - 1) == 0:
        path.insert(0, old_root)
    if not path:
        return False
    fn, sn = old - 1, new - 1
    while fn & 1:
        fn >>= 1
        sn >>= 1
    old_node = new_node = path[0]
    for sibling in path[1:]:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            old_node = node_hash(sibling, old_node)
            new_node = node_hash(sibling, new_node)
            while fn and not fn & 1:
                fn >>= 1
                sn >>= 1
        else:
            new_node = node_hash(new_node, sibling)
        fn >>= 1
        sn >>= 1
    return sn == 0 and old_node == old_root and new_node == new_root


class Frontier:
    """The right edge of a growing tree: O(log n) hashes, from which the root follows.

    `push` takes complete subtrees in order; a subtree of 2^level leaves may be pushed only when the
    size so far is a multiple of it.
    """

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[tuple[int, bytes]] = []

    def push(self, node: bytes, level: int = 0) -> None:
        """Append a complete subtree of 2^level leaves."""
        if self.size % (1 << level):
            raise Corrupt(f"a subtree of {1 << level} leaves cannot follow {self.size}")
        self.size += 1 << level
        peaks = self._peaks
        while peaks and peaks[-1][0] == level:
            node = sha256(b"\1" + peaks.pop()[1] + node).digest()
            level += 1
        peaks.append((level, node))

    def root(self) -> bytes:
        """Root of all that was pushed."""
        return _fold_right([node for _, node in self._peaks]) if self._peaks else EMPTY_ROOT


def _peaks(size: int) -> list[tuple[int, int]]:
    """The complete subtrees `(level, index)` of a tree, left to right."""
    found, start = [], 0
    for level in range(size.bit_length() - 1, -1, -1):
        if size >> level & 1:
            found.append((level, start >> level))
            start += 1 << level
    return found


def _fold_right(hashes: Sequence[bytes]) -> bytes:
    node = hashes[-1]
    for left in reversed(hashes[:-1]):
        node = node_hash(left, node)
    return node


def _range_root(start: int, size: int, nodes: Nodes) -> bytes:
    """Root over leaves [start, start+size); start is a multiple of the power of two ≥ size."""
    return _fold_right([nodes(level, (start >> level) + index) for level, index in _peaks(size)])


def _split(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1


def _path(index: int, start: int, size: int, nodes: Nodes) -> list[bytes]:
    if size == 1:
        return []
    k = _split(size)
    if index < k:
        return [*_path(index, start, k, nodes), _range_root(start + k, size - k, nodes)]
    return [*_path(index - k, start + k, size - k, nodes), _range_root(start, k, nodes)]


def _subproof(old: int, start: int, size: int, whole: bool, nodes: Nodes) -> list[bytes]:
    if old == size:
        return [] if whole else [_range_root(start, size, nodes)]
    k = _split(size)
    if old <= k:
        return [*_subproof(old, start, k, whole, nodes), _range_root(start + k, size - k, nodes)]
    return [*_subproof(old - k, start + k, size - k, False, nodes), _range_root(start, k, nodes)]
