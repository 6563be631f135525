"""Packs: written in one way for ever, and proven or refused line by line."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Corrupt
from core.event import Event
from core.proof import Head, Proven, event_line, head_line, prove, read_event, read_head
from tests.core import naive
from tests.core.strategies import events
from tests.core.test_digest import as_event
from tests.core.test_tag import receipts

PACKS = [[line.encode() for line in vector["pack"]] for vector in naive.read("packs")]
hashes = st.binary(min_size=32, max_size=32)


def changed(lines: list[bytes], number: int, old: bytes, new: bytes) -> list[bytes]:
    assert old in lines[number - 1]
    return [line.replace(old, new, 1) if i == number else line for i, line in enumerate(lines, 1)]


def run(lines: list[bytes]) -> list[Proven]:
    return list(prove(read_head(lines[0]), lines[1:]))


@pytest.mark.parametrize("pack", PACKS)
def test_a_pack_is_written_the_same_for_ever(pack: list[bytes]) -> None:
    head = read_head(pack[0])
    found = [read_event(line, number) for number, line in enumerate(pack[1:], 2)]
    assert [head_line(head), *map(event_line, found)] == pack


def test_every_kind_of_event_is_proven() -> None:
    assert [proven.event for proven in run(PACKS[1])] == [
        as_event(vector | {"stream": "episode/other"}) for vector in naive.EVENTS
    ]


def test_the_events_of_one_stream_may_stand_apart_in_the_log() -> None:
    found = run(PACKS[2])
    assert [proven.version for proven in found] == [1, 2, 3, 4]
    assert [b.position - a.position for a, b in pairwise(found)] == [3, 3, 3]


@given(receipts, st.integers(1, 2**63))
def test_a_head_comes_back_as_it_was(receipt: Any, count: int) -> None:
    head = Head(receipt, count)
    assert read_head(head_line(head)) == head


@given(events, st.integers(1, 2**63 - 1), st.integers(1, 2**63 - 1), st.lists(hashes, max_size=3))
def test_an_event_comes_back_as_it_was(event: Event, position: int, version: int, path: list[bytes]) -> None:
    from msgspec.structs import replace

    proven = Proven(position, version, tuple(path), replace(event, expected_version=None))
    assert read_event(event_line(proven), 2) == proven


@given(st.binary(max_size=400))
def test_any_other_bytes_are_refused_in_one_line(data: bytes) -> None:
    for refuse in (lambda: read_head(data), lambda: read_event(data, 2)):
        with pytest.raises(Corrupt) as raised:
            refuse()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("number", "old", "new", "what"),
    [
        (1, b'"events":4', b'"events":5', "line 6: the pack has 4 of 5 events"),
        (1, b'"events":4', b'"events":3', "line 6: the pack has 4 of 3 events"),
        (3, b'"version":2', b'"version":3', "line 3: no such event stands at position 17 under"),
        (3, b'"position":17', b'"position":16', "line 3: no such event stands at position 16 under"),
        (3, b'"position":17', b'"position":0', "line 3: no such event stands at position 0 under"),
        (3, b'"position":17', b'"position":99999999999999999999', "line 3: no"),
        (3, b'"seq":5', b'"seq":6', "line 3: no such event stands at position 17 under"),
        (3, b'"seq":5', b'"seq":-5', "line 3: no such event stands at position 17 under"),
        (3, b'"body":"{}"', b'"body":"{ }"', "line 3: no such event stands at position 17 under"),
        (3, b'"schema":1', b'"schema":1,"actor":null', "line 3: not a proven event, or an altered one"),
        (3, b'"schema":1', b'"schema":1,"mood":"x"', "line 3: not a proven event, or an altered one"),
        (3, b'"stream":', b'"stream": ', "line 3: not a proven event, or an altered one"),
        (3, b'"path":["', b'"path":["00', "line 3: not a proven event, or an altered one"),
    ],
)
def test_what_is_altered_is_named_by_its_line(number: int, old: bytes, new: bytes, what: str) -> None:
    with pytest.raises(Corrupt) as raised:
        run(changed(PACKS[2], number, old, new))
    assert str(raised.value).startswith(what)


def test_an_event_left_out_between_others_is_found() -> None:
    head, first, _, third, fourth = PACKS[2]
    with pytest.raises(Corrupt, match="line 3: it does not follow version 1 of 'episode/2'"):
        run([head.replace(b'"events":4', b'"events":3'), first, third, fourth])


def test_a_pack_without_events_proves_nothing() -> None:
    with pytest.raises(Corrupt, match="line 2: the pack has 0 of 0 events"):
        run([PACKS[2][0].replace(b'"events":4', b'"events":0')])


def test_an_event_of_another_stream_is_found() -> None:
    other = PACKS[1][1]
    with pytest.raises(Corrupt, match="line 3: "):
        run([PACKS[2][0], PACKS[2][1], other])
