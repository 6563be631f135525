"""The tree is RFC 9162's, and its proofs prove."""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import merkle
from core.errors import Corrupt
from tests.core import naive

LEAVES = [naive.leaf(position) for position in range(1, 65_538)]
HASHES = [sha256(b"\0" + data).digest() for data in LEAVES]
MANY = [*range(18), 255, 256, 257, 300]

sizes = st.integers(1, 300)
data = st.data()


@cache
def nodes(level: int, index: int) -> bytes:
    return merkle.subtree_root(HASHES[index << level : (index + 1) << level])


def root(size: int) -> bytes:
    return merkle.root(size, nodes)


@pytest.mark.parametrize("vector", naive.read("roots"), ids=lambda vector: str(vector["size"]))
def test_the_root_at_every_size_never_changes(vector: dict[str, Any]) -> None:
    size = vector["size"]
    assert root(size).hex() == vector["root"]
    frontier = merkle.Frontier()
    for hash_ in HASHES[:size]:
        frontier.push(hash_)
    assert frontier.root().hex() == vector["root"]
    if size:
        assert merkle.subtree_root(HASHES[:size]).hex() == vector["root"]


def test_a_leaf_is_the_version_and_the_digest() -> None:
    assert merkle.leaf_hash(7, sha256(b"7").digest()) == HASHES[6]


@given(st.integers(0, 1000), st.integers(0, 10))
def test_a_frontier_takes_whole_subtrees(size: int, level: int) -> None:
    frontier = merkle.Frontier()
    whole = size >> level
    for index in range(whole):
        frontier.push(nodes(level, index), level)
    for hash_ in HASHES[whole << level : size]:
        frontier.push(hash_)
    assert frontier.size == size
    assert frontier.root() == root(size) == naive.tree_root(LEAVES[:size])


def test_a_frontier_refuses_a_subtree_that_cannot_follow() -> None:
    frontier = merkle.Frontier()
    frontier.push(HASHES[0])
    with pytest.raises(Corrupt):
        frontier.push(nodes(1, 0), 1)


@given(data, sizes)
def test_proofs_are_those_of_the_rfc(data: st.DataObject, size: int) -> None:
    index = data.draw(st.integers(0, size - 1))
    assert merkle.inclusion_proof(index, size, nodes) == naive.inclusion_path(index, LEAVES[:size])
    assert merkle.consistency_proof(index + 1, size, nodes) == naive.consistency_path(index + 1, LEAVES[:size])


def test_every_leaf_of_every_small_tree_is_proven_and_no_other_place_is() -> None:
    for size in MANY[1:]:
        for index in range(size):
            proof = merkle.inclusion_proof(index, size, nodes)
            assert merkle.verify_inclusion(HASHES[index], index, size, proof, root(size))
            for other in {0, index - 1, index + 1, size - 1} - {index}:
                assert not merkle.verify_inclusion(HASHES[index], other, size, proof, root(size))


def test_every_small_tree_extends_every_smaller_one() -> None:
    for new in MANY[1:]:
        for old in range(1, new + 1):
            proof = merkle.consistency_proof(old, new, nodes)
            assert merkle.verify_consistency(old, new, root(old), root(new), proof)
            for other in {1, old - 1, old + 1, new} - {old}:
                assert not merkle.verify_consistency(other, new, root(old), root(new), proof)


@given(data, sizes)
def test_an_inclusion_proof_with_any_byte_changed_fails(data: st.DataObject, size: int) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(index, size, nodes)
    parts = altered(data, [HASHES[index], root(size), *proof])
    assert not merkle.verify_inclusion(parts[0], index, size, parts[2:], parts[1])


@given(data, sizes)
def test_a_consistency_proof_with_any_byte_changed_fails(data: st.DataObject, size: int) -> None:
    old = data.draw(st.integers(1, size))
    proof = merkle.consistency_proof(old, size, nodes)
    parts = altered(data, [root(old), root(size), *proof])
    assert not merkle.verify_consistency(old, size, parts[0], parts[1], parts[2:])


@given(data, sizes, st.sampled_from(["shorter", "longer"]))
def test_a_proof_of_another_length_fails(data: st.DataObject, size: int, change: str) -> None:
    index = data.draw(st.integers(0, size - 1))
    edit: Callable[[list[bytes]], list[bytes]] = (lambda proof: proof[:-1]) if change == "shorter" else extended
    inclusion = merkle.inclusion_proof(index, size, nodes)
    if edit(inclusion) != inclusion:
        assert not merkle.verify_inclusion(HASHES[index], index, size, edit(inclusion), root(size))
    consistency = merkle.consistency_proof(index + 1, size, nodes)
    if edit(consistency) != consistency:
        assert not merkle.verify_consistency(index + 1, size, root(index + 1), root(size), edit(consistency))


@given(st.integers(-2, 9), st.integers(-2, 9), st.lists(st.binary(max_size=32), max_size=6), st.binary(max_size=32))
def test_a_made_up_proof_is_refused_without_an_error(a: int, b: int, proof: list[bytes], hash_: bytes) -> None:
    assert not merkle.verify_inclusion(hash_, a, b, proof, root(8))
    assert not merkle.verify_consistency(a, b, hash_, root(8), proof) or (a == b and hash_ == root(8))


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_no_proof_is_made_for_a_leaf_outside_the_tree(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="not in a tree"):
        merkle.inclusion_proof(index, size, nodes)


@pytest.mark.parametrize(("old", "new"), [(0, 3), (4, 3), (-1, 3)])
def test_no_proof_is_made_from_a_tree_that_is_no_prefix(old: int, new: int) -> None:
    with pytest.raises(ValueError, match="no consistency proof"):
        merkle.consistency_proof(old, new, nodes)


def altered(data: st.DataObject, parts: list[bytes]) -> list[bytes]:
    """The parts with one bit of one byte flipped."""
    which = data.draw(st.integers(0, len(parts) - 1))
    place, bit = data.draw(st.integers(0, 31)), data.draw(st.integers(0, 7))
    changed = bytearray(parts[which])
    changed[place] ^= 1 << bit
    return [*parts[:which], bytes(changed), *parts[which + 1 :]]


def extended(proof: list[bytes]) -> list[bytes]:
    return [*proof, HASHES[0]]
