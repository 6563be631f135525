import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.interchange import split
from eventlog.interchange.split import Piece, Reader
from tests.examples import examples


class Dribble(io.RawIOBase):
    """A file that gives at most `size` bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self.rest = data
        self.size = size

    def read(self, size: int = -1) -> bytes:
        size = min(self.size, size) if size >= 0 else self.size
        data, self.rest = self.rest[:size], self.rest[size:]
        return data


def reader(data: bytes, size: int = 1 << 20) -> Reader:
    return Reader(Dribble(data, size))  # type: ignore[arg-type]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)

styles = st.sampled_from([{}, {"indent": 1}, {"ensure_ascii": False}, {"separators": (",", ":")}])


def whole(pieces: Iterator[Piece], data: bytes) -> list[bytes]:
    found = []
    for piece in pieces:
        assert not piece.cut
        assert piece.data is not None
        assert data[piece.offset : piece.offset + len(piece.data)] == piece.data
        found.append(piece.data)
    return found


@given(st.lists(json_values, max_size=6), styles, st.integers(1, 40))
def test_an_array_is_cut_into_what_a_parser_finds(values: list[Any], style: dict[str, Any], size: int) -> None:
    data = json.dumps(values, **style).encode("utf-8", "replace")
    assert [json.loads(text) for text in whole(split.array(reader(data, size)), data)] == json.loads(data)


@given(st.lists(st.dictionaries(st.text(max_size=3), json_values, max_size=3), max_size=5), styles, st.integers(1, 40))
def test_documents_are_cut_into_what_a_parser_finds(values: list[Any], style: dict[str, Any], size: int) -> None:
    data = " \n".join(json.dumps(value, **style) for value in values).encode("utf-8", "replace")
    expected = [json.loads(json.dumps(value, **style).encode("utf-8", "replace")) for value in values]
    assert [json.loads(text) for text in whole(split.documents(reader(data, size)), data)] == expected


@given(st.lists(json_values, max_size=5), st.sampled_from(["\n", "\r\n", "\n\n"]), st.integers(1, 40))
def test_lines_keep_their_bytes_and_numbers(values: list[Any], end: str, size: int) -> None:
    texts = [json.dumps(value).encode() for value in values]
    data = end.encode().join(texts)
    pieces = list(split.lines(reader(data, size)))
    assert whole(iter(pieces), data) == texts
    step = 2 if end == "\n\n" else 1
    assert [piece.line for piece in pieces] == list(range(1, 1 + step * len(texts), step))


@settings(max_examples=examples(100))
@given(st.binary(max_size=80) | st.text(alphabet='{}[]",:\\ 1a\n').map(str.encode), st.integers(1, 9))
def test_whatever_the_bytes_every_piece_lies_where_it_says(data: bytes, size: int) -> None:
    for pieces in (split.array, split.documents, split.lines):
        end = 0
        for piece in pieces(reader(data, size)):
            assert piece.data is not None
            assert end <= piece.offset
            assert data[piece.offset : piece.offset + len(piece.data)] == piece.data
            end = piece.offset + len(piece.data)


@given(st.lists(st.dictionaries(st.text(max_size=3), json_values, max_size=3), min_size=1, max_size=4), st.data())
def test_an_array_cut_anywhere_keeps_what_came_before(values: list[Any], data: st.DataObject) -> None:
    text = json.dumps(values).encode()
    end = data.draw(st.integers(1, len(text) - 1))
    pieces = list(split.array(reader(text[:end], 7)))
    assert pieces[-1].cut
    assert not any(piece.cut for piece in pieces[:-1])
    kept = [json.loads(piece.data or b"") for piece in pieces[:-1]]
    assert kept == json.loads(text)[: len(kept)]


@pytest.mark.parametrize(
    "bad",
    [b'{"a": [1, 2}', b'{"a": NaN}', b"xyz", b'{"a": 1}{"b": 2}', b'{"a": 01}', b"{]}", b'{"a" 1}'],
)
def test_a_bad_element_stands_alone(bad: bytes) -> None:
    data = b'[{"n": 1}, ' + bad + b', {"n": 2}]'
    pieces = [piece.data for piece in split.array(reader(data, 5))]
    assert pieces[0] == b'{"n": 1}'
    if bad != b"{]}":  # the stray bracket ends the array: what follows is rejected piece by piece
        assert pieces[1:] == [bad, b'{"n": 2}']


@pytest.mark.parametrize("cut", [split.array, split.lines, split.documents])
@pytest.mark.parametrize("size", [3, 50, 1 << 20])
def test_a_record_over_the_limit_is_passed_over(cut: Any, size: int) -> None:
    large = json.dumps({"a": "x" * 300, "b": [{"c": ["]", "\\"]}] * 20}).encode()
    rows = [b'{"n":1}', large, b'{"n":2}']
    data = b"[" + b",\n".join(rows) + b"]" if cut is split.array else b"\n".join(rows)
    assert [piece.data for piece in cut(reader(data, size), 200)] == [b'{"n":1}', None, b'{"n":2}']


def test_arrays_one_after_another_are_one_list() -> None:
    assert [piece.data for piece in split.array(reader(b"[1, 2]\n[3] [] [[4]]"))] == [b"1", b"2", b"3", b"[4]"]


def test_depth_without_end_is_given_up() -> None:
    (piece,) = split.array(reader(b"[" * 3_000_000))
    assert piece.cut


def test_msgspec_says_where_a_value_ends() -> None:
    """The fast way through an array reads it from msgspec's message."""
    scanner = split._Scanner(reader(b""), 1 << 20)
    scanner.buffer = b'{"a": "]},\\""} , 2'
    assert scanner._sound() == 15
