"""Cuts a JSON file into its records at the byte level, in memory bounded by the largest record.

Three layouts: an *array* of records, *lines* (JSONL), and *documents* (one or more values after one
another). A `Piece` is the exact bytes of one record, or what stands where one should be: nothing here
promises that it is valid JSON. The end of a sound record of an array is where msgspec's scanner, told
to read one value, complains of what follows; whatever does not end that way (a record cut by the
buffer's end, a bad one) is gone through bracket by bracket.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec

CHUNK = 1 << 20
MAX_RECORD = 64 << 20
MAX_NESTING = 10_000

_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'


_VALUE = rb'[^"{}\[\]]++|' + _STRING
_FLAT = rb"|\{(?:" + _VALUE + rb")*+\}|\[(?:" + _VALUE + rb")*+\]"
_INSIDE = re.compile(rb"(?:" + _VALUE + _FLAT + rb")*+", re.DOTALL)
_BETWEEN = re.compile(rb'(?:[^"{}\[\],]++|' + _STRING + _FLAT + rb")*+", re.DOTALL)
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BLANK = re.compile(rb"[ \t\r\n]*+")
_NO_BRACKET = re.compile(rb"[^\[{]*+")
_NAME = re.compile(rb"(" + _STRING + rb")[ \t\r\n]*+:", re.DOTALL)
_MAX_NAME = 65_536
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_scan = msgspec.json.Decoder(msgspec.Raw).decode

_QUOTE, _COMMA, _OPEN_LIST, _CLOSE_LIST, _OPEN_MAP, _CLOSE_MAP = b'",[]{}'


class Piece(NamedTuple):
    """The bytes at `offset` where a record should be. `data` is None if they are more than the limit,
    `cut` says that the file ended before the record did, `line` its line number (layout lines only)."""

    offset: int
    data: bytes | None
    cut: bool = False
    line: int | None = None


class Reader:
    """A binary file read once from front to back, with a look ahead. `offset` is where it stands."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._ahead = b""
        self.offset = 0

    def peek(self, size: int) -> bytes:
        """At least the next `size` bytes, unless the file ends before."""
        while len(self._ahead) < size:
            more = self._file.read(size - len(self._ahead))
            if not more:
                break
            self._ahead += more
        return self._ahead

    def read(self, size: int) -> bytes:
        """The next bytes: at least one unless the file has ended."""
        data, self._ahead = (self._ahead, b"") if self._ahead else (self._file.read(size), b"")
        self.offset += len(data)
        return data

    def skip(self, size: int) -> None:
        """Forget the first `size` bytes of what was peeked."""
        self._ahead = self._ahead[size:]
        self.offset += size


def lines(reader: Reader, limit: int = MAX_RECORD) -> Iterator[Piece]:
    """The lines of a file that are not blank, without their line ends."""
    number, start = 1, reader.offset
    parts: list[bytes] = []
    size = 0
    while chunk := reader.read(CHUNK):
        head, *others = chunk.split(b"\n")
        size += len(head)
        parts = [*parts, head] if size <= limit else []
        for following in others:
            piece = _line(start, None if size > limit else b"".join(parts), number)
            if piece is not None:
                yield piece
            start += size + 1
            number += 1
            parts, size = [following], len(following)
    piece = _line(start, None if size > limit else b"".join(parts), number)
    if piece is not None:
        yield piece


def _line(start: int, data: bytes | None, number: int) -> Piece | None:
    """A line without the white space around it; None if it is blank."""
    if data is None:
        return Piece(start, None, line=number)
    text = data.strip()
    begun = start if text is data else start + len(data) - len(data.lstrip())
    return Piece(begun, text, line=number) if text else None


def array(reader: Reader, limit: int = MAX_RECORD) -> Iterator[Piece]:
    """The elements of a JSON array (or of several, one after another), cut at its own commas. A bad
    element stands alone as long as its brackets and quotes can be paired."""
    return _Scanner(reader, limit).pieces(elements=True)


def documents(reader: Reader, limit: int = MAX_RECORD) -> Iterator[Piece]:
    """The values of a file that holds one JSON document, or several one after another."""
    return _Scanner(reader, limit).pieces(elements=False)


def members(reader: Reader, into: str, limit: int = MAX_RECORD) -> Iterator[tuple[str, Piece]]:
    """The members of the object that a file holds, with their names; of the array `into`, every element."""
    return _Scanner(reader, limit).members(into)


class _Scanner:
    """A place in a file: `buffer[at]` is the next byte to look at, `base` the file's offset of
    `buffer[0]`; the record began at `start`; `closers` are the brackets still owed."""

    def __init__(self, reader: Reader, limit: int) -> None:
        self.reader = reader
        self.limit = limit
        self.base = reader.offset
        self.buffer = b""
        self.at = 0
        self.start = 0
        self.lost = 0
        self.closers = bytearray()

    def pieces(self, *, elements: bool) -> Iterator[Piece]:
        while self._blank():
            if elements and self.buffer[self.at] == _OPEN_LIST:
                yield from self._list()
            else:
                yield self._document()
            self.closers.clear()

    def members(self, into: str) -> Iterator[tuple[str, Piece]]:
        if not self._blank() or self.buffer[self.at] != _OPEN_MAP:
            return
        self._open()
        byte: int | None = _COMMA
        while byte == _COMMA and self._blank() and self.buffer[self.at] != _CLOSE_MAP:
            name = self._name()
            self._blank()
            if name == into and self.buffer[self.at : self.at + 1] == b"[":
                outer, self.closers = self.closers, bytearray()
                for piece in self._list():
                    yield name, piece
                self.closers = outer
                self.start = self.at
                byte = self._until(_COMMA)
            else:
                byte = self._until(_COMMA)
                yield name, self._piece(cut=byte is None)
            self.at += 1

    def _name(self) -> str:
        """Pass over a member's name and its colon; empty if it is none."""
        while (found := _NAME.match(self.buffer, self.at)) is None and len(self.buffer) - self.at < _MAX_NAME:
            if not self._more():
                return ""
        if found is None:
            return ""
        self.at = found.end()
        try:
            return str(msgspec.json.decode(found[1], type=str))
        except ValueError:
            return ""

    def _list(self) -> Iterator[Piece]:
        self._open()
        if self._blank() and self.buffer[self.at] == _CLOSE_LIST:
            self.at += 1
            return
        byte: int | None = _COMMA
        while byte == _COMMA:
            self._blank()
            size = self._sound()
            if size:
                self.at += size
                byte = self.buffer[self.at]
            else:
                byte = self._until(_COMMA)
            yield self._piece(cut=byte is None)
            self.at += 1

    def _sound(self) -> int:
        """How many bytes it is to the separator, if a valid element and it lie in the buffer; else 0."""
        try:
            _scan(memoryview(self.buffer)[self.at :])
        except msgspec.DecodeError as error:
            found = _TRAILING.search(str(error))
            size = int(found[1]) - 1 if found else 0
            end = self.at + size
            return size if size <= self.limit and self.buffer[end : end + 1] in (b",", b"]") else 0
        except RecursionError:
            pass
        return 0

    def _document(self) -> Piece:
        if self.buffer[self.at] in (_OPEN_LIST, _OPEN_MAP):
            self._open()
            if self._until(None) is None:
                return self._piece(cut=True)
            self.at += 1
        else:
            self._text()
        return self._piece()

    def _text(self) -> None:
        """Go to the end of what is no value at all: the next bracket or the file's end."""
        while True:
            self.at = _end(_NO_BRACKET, self.buffer, self.at)
            if self.at < len(self.buffer) or not self._more():
                return

    def _until(self, separator: int | None) -> int | None:
        """Go to the separator or to the bracket that closes the outermost one, and return that byte;
        None if the file ends before, or nests too deep to go on."""
        quoted = False
        while True:
            level = _BETWEEN if separator and len(self.closers) == 1 else _INSIDE
            self.at = _end(_STRING_REST if quoted else level, self.buffer, self.at)
            if self.at == len(self.buffer) or (quoted and self.buffer[self.at] != _QUOTE):
                if self._more():
                    continue
                return None
            byte = self.buffer[self.at]
            if byte == _QUOTE:
                quoted = not quoted
            elif byte == _COMMA:
                return byte
            elif byte in (_OPEN_LIST, _OPEN_MAP):
                if len(self.closers) == MAX_NESTING:
                    self._drain()
                    return None
                self._open()
                continue
            elif self._close(byte):
                return byte
            self.at += 1

    def _open(self) -> None:
        self.closers.append(_CLOSE_LIST if self.buffer[self.at] == _OPEN_LIST else _CLOSE_MAP)
        self.at += 1

    def _close(self, byte: int) -> bool:
        """Whether this bracket closes the outermost one. One that closes nothing is passed over; one
        that closes an outer bracket closes those inside it too, so that a bad record ends."""
        depth = self.closers.rfind(byte)
        if depth >= 0:
            del self.closers[depth:]
        return depth == 0

    def _blank(self) -> bool:
        """Pass over white space, to where a record may begin; False if the file ends there."""
        while True:
            self.at = self.start = _end(_BLANK, self.buffer, self.at)
            self.lost = 0
            if self.at < len(self.buffer):
                return True
            if not self._more():
                return False

    def _more(self) -> bool:
        """Read on, keeping the record that is being read unless it is too large already."""
        if self.at - self.start > self.limit:
            self.lost += self.at - self.start
            self.start = self.at
        kept = self.buffer[self.start :]
        more = self.reader.read(max(CHUNK, min(len(kept), 16 * CHUNK)))
        self.base += self.start
        self.at -= self.start
        self.start = 0
        self.buffer = kept + more
        return bool(more)

    def _drain(self) -> None:
        while self._more():
            self.at = len(self.buffer)

    def _piece(self, cut: bool = False) -> Piece:
        size = self.lost + self.at - self.start
        data = None if size > self.limit else self.buffer[self.start : self.at].rstrip(b" \t\r\n")
        return Piece(self.base + self.start - self.lost, data, cut)


def _end(pattern: re.Pattern[bytes], buffer: bytes, at: int) -> int:
    match = pattern.match(buffer, at)
    return match.end() if match else at
