"""What is fixed for ever stays as it is."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.digest import event_digest, event_preimage, segment_seal
from core.event import Event
from core.identity import episode_id, uuid8
from tests.core import naive
from tests.core.strategies import events

IDS = ("event_id", "run", "causation_id")


def as_event(vector: dict[str, Any]) -> Event:
    raw: dict[str, Any] = {name: bytes.fromhex(value) if name in IDS else value for name, value in vector.items()}
    return Event(**(raw | {"body": vector["body"].encode()}))


def as_vector(event: Event) -> dict[str, Any]:
    found = {name: value for name, value in msgspec.structs.asdict(event).items() if name != "expected_version"}
    for name in IDS:
        found[name] = found[name] and found[name].hex()
    return found | {"body": event.body.decode()}


def test_the_golden_vectors_are_those_of_the_naive_implementation() -> None:
    for name, vectors in naive.golden().items():
        assert naive.read(name) == vectors, name


@pytest.mark.parametrize("vector", naive.read("events"))
def test_the_digest_of_an_event_never_changes(vector: dict[str, Any]) -> None:
    assert event_digest(as_event(vector["event"])).hex() == vector["digest"]


@pytest.mark.parametrize("vector", naive.read("segments"))
def test_the_seal_of_a_segment_never_changes(vector: dict[str, Any]) -> None:
    segment = dict(vector["segment"])
    for name in ("previous", "topic_id"):
        segment[name] = bytes.fromhex(segment[name]) if name in segment else None
    assert segment_seal(**segment).hex() == vector["seal"]


@pytest.mark.parametrize("vector", naive.read("ids"))
def test_the_ids_of_imported_content_never_change(vector: dict[str, Any]) -> None:
    parts = [bytes.fromhex(part) for part in vector["parts"]]
    assert uuid8(*parts).hex() == vector["uuid8"]
    assert episode_id(*parts) == vector["episode"]


@given(events)
def test_the_digest_is_the_naive_one(event: Event) -> None:
    assert event_digest(event).hex() == naive.event_digest(as_vector(event))


@given(events)
def test_the_expected_version_is_not_digested(event: Event) -> None:
    other = msgspec.structs.replace(event, expected_version=None)
    assert event_digest(event) == event_digest(other)


@given(st.lists(events, min_size=2, max_size=2, unique_by=lambda event: str(as_vector(event))))
def test_two_different_events_never_share_what_is_hashed(pair: list[Event]) -> None:
    assert event_preimage(pair[0]) != event_preimage(pair[1])
