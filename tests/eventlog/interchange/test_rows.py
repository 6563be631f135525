"""An imported episode's rows are the same whether they are packed by what is compiled or not."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.event import MAX_BODY_BYTES, MAX_SCHEMA, MAX_TIME, MIN_TIME
from core.identity import uuid8
from eventlog.interchange import rows
from eventlog.interchange.identity import Identity
from eventlog.pack import Packer
from tests.core import strategies
from tests.examples import examples

native = pytest.importorskip("eventlog.native", reason="not compiled here: `make setup` does it where there is cc")

Told = tuple[str, int, int | None, str | None, str | None, int | None, bytes]
"""What an event is given with, besides its number."""

IDENTITY = Identity("langfuse", 1, 1, bytes(32), 0)
names = st.none() | st.text(max_size=20)
told: st.SearchStrategy[Told] = st.tuples(
    st.from_regex(re.compile(r"[A-Z][A-Za-z0-9]{0,9}", re.ASCII), fullmatch=True) | st.text(max_size=9),
    st.integers(1, MAX_SCHEMA) | st.integers(-2, 2**33),
    st.none() | st.integers(MIN_TIME - 1, MAX_TIME + 1),
    names,
    names,
    st.none() | st.integers(-1, 2**62),
    strategies.bodies | st.binary(max_size=9),
)


def packed(type_: type[rows.Episode], events: list[Told], run: bytes = IDENTITY.run) -> tuple[object, ...]:
    """What the events became, and what was said against each."""
    episode = type_(Packer(), IDENTITY.stream, "import", run, IDENTITY.events)
    faults = [episode.add(seq, *event) for seq, event in enumerate(events, 1)]
    size, batch = episode.packer.size, episode.packer.packed()
    return faults, size, batch.ids, *batch.__getstate__(), batch.digests


def same(events: list[Told], run: bytes = IDENTITY.run) -> None:
    assert packed(native.Episode, events, run) == packed(rows.Episode, events, run)


@settings(max_examples=examples(200))
@given(st.lists(told, max_size=6))
def test_the_same_rows(events: list[Told]) -> None:
    same(events)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{}", b"{} ", b" {}", b"[]", b'{"a":1e999}', b'{"a":NaN}', b'{"a":"\xff"}', b'{"a":"\\ud800"}']
    + [b'{"a":%s%s}' % (b"[" * n, b"]" * n) for n in (127, 128, 300)]
    + [b'{"a":"' + b"[" * 300 + b'"}', b'{"a":"' + b"x" * (MAX_BODY_BYTES - 8) + b'"}'],
)
@pytest.mark.parametrize("longer", [0, 1])
def test_the_same_of_a_body_at_the_edges(body: bytes, longer: int) -> None:
    event: Told = ("A", 1, None, None, None, None, body.replace(b'"a"', b'"a' + b"a" * longer + b'"'))
    good: Told = ("A", 1, 0, "planner", "c", 0, b"{}")
    same([good, event, good])


TOKENS = [b"e", b"E9", b"1", b"9" * 301, b".", b'"', b"\\", b"\\u", b"\\ud800", b"{", b"]", b",", b":", b"\n"]
TOKENS += [b"\xc3", b"NaN", b"\x00"]


@settings(max_examples=examples(400))
@given(st.data())
def test_the_same_of_a_body_with_anything_done_to_it(data: st.DataObject) -> None:
    whole = bytearray(data.draw(strategies.bodies))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole)))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.sampled_from(TOKENS))
    same([("A", 1, None, None, None, None, bytes(whole))])


def test_the_same_of_a_run_that_is_none() -> None:
    same([("A", 1, 0, None, None, 0, b"{}")], run=b"short")


def test_ids_follow_from_the_number() -> None:
    episode = native.Episode(Packer(), IDENTITY.stream, "import", IDENTITY.run, IDENTITY.events)
    for seq in (1, 10, 2**62):
        assert episode.add(seq, "A", 1, None, None, None, None, b"{}") is None
    parts = (b"langfuse", b"1", b"1", b"0", bytes(32))
    assert episode.packer.batch.ids == [uuid8(*parts, b"%d" % seq) for seq in (1, 10, 2**62)]


def test_what_is_compiled_is_used() -> None:
    assert rows.fastest() is native.Episode
