"""What is signed stays as it is, and a receipt is written in one way only."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadRecord
from core.tag import (
    Receipt,
    Tag,
    offsets_bytes,
    read_offsets,
    read_receipt,
    receipt_line,
    rotation_bytes,
    tag_bytes,
    tag_json,
)
from core.times import from_text
from tests.core import naive

VECTORS = naive.read("tags")

offsets = st.lists(
    st.tuples(st.binary(min_size=16, max_size=16), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)), max_size=4
).map(tuple)
hashes = st.binary(min_size=32, max_size=32)
ids = st.binary(min_size=16, max_size=16)
texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
tags = st.builds(
    Tag,
    name=texts,
    log_id=ids,
    instance_id=ids,
    position=st.integers(1, 2**63 - 1),
    root=hashes,
    seal=st.none() | hashes,
    offsets=offsets,
    created_at=st.integers(from_text("0001-01-01T00:00:00Z"), from_text("9999-12-31T23:59:59.999999Z")),
    why=texts,
)
receipts = st.builds(Receipt, tags, hashes, st.binary(min_size=64, max_size=64))


def as_tag(vector: dict[str, Any]) -> Tag:
    return Tag(
        name=vector["name"],
        log_id=UUID(vector["log"]).bytes,
        instance_id=UUID(vector["instance"]).bytes,
        position=vector["position"],
        root=bytes.fromhex(vector["root"]),
        seal=vector["seal"] and bytes.fromhex(vector["seal"]),
        offsets=tuple((UUID(topic).bytes, partition, n) for topic, partition, n in vector["offsets"]),
        created_at=from_text(vector["created_at"]),
        why=vector["why"],
    )


@pytest.mark.parametrize("vector", VECTORS)
def test_the_signed_bytes_of_a_tag_never_change(vector: dict[str, Any]) -> None:
    assert tag_bytes(as_tag(vector["tag"])).hex() == vector["bytes"]


@pytest.mark.parametrize("vector", VECTORS)
def test_a_receipt_reads_and_is_written_the_same_for_ever(vector: dict[str, Any]) -> None:
    data = vector["receipt"].encode()
    receipt = read_receipt(data)
    assert receipt.tag == as_tag(vector["tag"])
    assert receipt_line(receipt) == data


@pytest.mark.parametrize("vector", naive.read("rotations"))
def test_the_signed_bytes_of_a_rotation_never_change(vector: dict[str, Any]) -> None:
    parts = [bytes.fromhex(vector["rotation"][name]) for name in ("log_id", "instance_id", "old", "new")]
    assert rotation_bytes(*parts).hex() == vector["bytes"]


@given(receipts)
def test_a_receipt_comes_back_as_it_was(receipt: Receipt) -> None:
    assert read_receipt(receipt_line(receipt)) == receipt


@given(tags)
def test_what_is_signed_is_what_the_definition_says(tag: Tag) -> None:
    vector = {name: getattr(tag_json(tag), name) for name in tag_json(tag).__struct_fields__}
    assert tag_bytes(tag) == naive.tag_bytes(vector)


@given(st.lists(tags, min_size=2, max_size=2, unique_by=str))
def test_two_different_tags_never_share_what_is_signed(pair: list[Tag]) -> None:
    assert tag_bytes(pair[0]) != tag_bytes(pair[1])


@given(offsets)
def test_offsets_come_back_as_they_were(found: Any) -> None:
    assert read_offsets(offsets_bytes(found)) == found


@given(
    st.binary(max_size=300)
    | st.builds(bytes.replace, st.just(VECTORS[1]["receipt"].encode()), st.binary(max_size=2), st.binary(max_size=3))
)
def test_any_bytes_are_a_receipt_written_so_or_refused_in_one_line(data: bytes) -> None:
    try:
        receipt = read_receipt(data)
    except BadRecord as error:
        assert "\n" not in str(error)
    else:
        assert receipt_line(receipt) == data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"position":1,', '"position":1.0,'),
        ('"position":1,', '"position":true,'),
        ('"position":1,', '"position": 1,'),
        ('"why":null', '"why":null,"more":1'),
        ('"name":"release-1",', ""),
        ("11111111-", "11111111"),
        ('"root":"33', '"root":"3 3'),
        ('"root":"33', '"root":"'),
        ("000006Z", "000006+00:00"),
        ('"format":"trajlog/receipt/1"', '"format":"trajlog/receipt/2"'),
        ("\n", ""),
        ("\n", "\n\n"),
    ],
)
def test_another_way_to_write_it_is_refused(old: str, new: str) -> None:
    text = VECTORS[1]["receipt"]
    assert old in text
    with pytest.raises(BadRecord, match="not a receipt, or an altered one"):
        read_receipt(text.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [('"position":1,', '"position":-1,'), ('"position":1,', f'"position":{2**64},'), (",0,0]]", f",{2**32},0]]")],
)
def test_a_number_that_no_tag_can_have_is_refused(old: str, new: str) -> None:
    text = next(vector["receipt"] for vector in VECTORS if ",0,0]]" in vector["receipt"])
    with pytest.raises(BadRecord, match="not a receipt, or an altered one"):
        read_receipt(text.replace(old, new, 1).encode())
