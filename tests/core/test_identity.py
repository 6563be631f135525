"""Ids: live ones sort by time, imported ones follow from their content."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import BadEvent
from core.identity import EPISODE, begun, episode_id, episode_id_of, then, uuid7, uuid8, uuid8_of, uuid_bytes, uuid_text


def test_live_ids_are_version_7_unique_and_ascending() -> None:
    made = [uuid7() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert all(uuid.UUID(bytes=raw).version == 7 for raw in made)


@given(st.lists(st.binary()), st.lists(st.binary()))
def test_imported_ids_are_version_8_and_follow_from_their_parts(a: list[bytes], b: list[bytes]) -> None:
    assert uuid.UUID(bytes=uuid8(*a)).version == 8
    assert uuid.UUID(bytes=uuid8(*a)).variant == uuid.RFC_4122
    assert (uuid8(*a) == uuid8(*b)) == (a == b)
    assert (episode_id(*a) == episode_id(*b)) == (a == b)


@given(st.lists(st.binary()), st.binary(), st.binary())
def test_ids_that_differ_in_their_last_part_begin_alike(parts: list[bytes], a: bytes, b: bytes) -> None:
    first, episode = begun(*parts), begun(EPISODE, *parts)
    for last in (a, b):
        assert uuid8_of(then(first, last)) == uuid8(*parts, last)
        assert episode_id_of(then(episode, last)) == episode_id(*parts, last)


@given(st.binary(min_size=16, max_size=16))
def test_an_id_survives_its_text(raw: bytes) -> None:
    assert uuid_text(raw) == str(uuid.UUID(bytes=raw))
    assert uuid_bytes(uuid_text(raw)) == raw
    assert uuid_bytes(raw.hex().upper()) == raw


@pytest.mark.parametrize(
    "text", ["", "0192d3c4", "g" * 32, "0" * 33, "{" + "0" * 32 + "}", "０" * 32, "0" * 32 + "\n", "-" * 32]
)
def test_what_is_no_id_is_one_error(text: str) -> None:
    with pytest.raises(BadEvent, match="not a UUID"):
        uuid_bytes(text)
