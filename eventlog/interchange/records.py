"""Reads the records of a file: each one's exact bytes, checked to be JSON, or why it is none.

A record that is bad but has an end is rejected alone; a file cut short keeps what came before.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from core.errors import BadRecord
from eventlog.blobs.media_type import sniff
from eventlog.interchange import split
from eventlog.interchange.sources import HEAD, Source
from eventlog.interchange.split import MAX_RECORD, Piece, Reader

_decode = msgspec.json.Decoder().decode
_BYTE = re.compile(r" \(byte (\d+)\)$")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_NOT_A_NUMBER = re.compile(rb"-?(?:NaN|Infinity|nan|inf)")
_KINDS = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
_OPENINGS = (
    (b"\xff\xfe\0\0", "UTF-32 text", "convert it to UTF-8: iconv -f UTF-32 -t UTF-8"),
    (b"\0\0\xfe\xff", "UTF-32 text", "convert it to UTF-8: iconv -f UTF-32 -t UTF-8"),
    (b"\xff\xfe", "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    (b"\xfe\xff", "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"),
    (b"\x1f\x8b", "a gzip file", "unpack it: gunzip -c FILE | trajlog import -"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it: zstd -dc FILE | trajlog import -"),
    (b"PK\x03\x04", "a zip archive", "unpack it and import what is inside"),
    (b"PAR1", "a Parquet file", "import the JSON it was made from"),
    (b"SQLite format 3\0", "an SQLite database", "import the JSON it was made from"),
)


_WIDE = {first + b"\0": "UTF-16LE" for first in (b"{", b"[", b" ", b"\n", b"\r", b"\t")} | {
    b"\0" + first: "UTF-16BE" for first in (b"{", b"[", b" ", b"\n", b"\r", b"\t")
}


class Layout(Enum):
    """How a file holds its records."""

    ARRAY = "array"  # the elements of one JSON array
    LINES = "lines"  # one to a line (JSONL)
    DOCUMENTS = "documents"  # the file is one JSON document, or several one after another


class Record(NamedTuple):
    """One record: its exact bytes, what they say, and where the next one begins (`offset`). `twin`: an
    earlier record of the import has its id, and says other things."""

    where: str
    data: bytes
    value: dict[str, Any]
    offset: int
    twin: bool = False


class Rejected(NamedTuple):
    """What stands where a record should be, and why it is none."""

    where: str
    why: str
    offset: int = 0


def records(source: Source, reader: Reader, layout: Layout | None = None) -> Iterator[Record | Rejected]:
    """The file's records in order, those that are no JSON object rejected. `BadRecord` if the file as
    a whole is no JSON text."""
    for where, piece in pieces(source, reader, layout or find_layout(source, reader)):
        end = piece.offset + len(piece.data or b"")
        if piece.data is None:
            yield Rejected(where, f"larger than {MAX_RECORD >> 20} MB (at byte {piece.offset})", end)
            continue
        try:
            value = _decode(piece.data)
        except (ValueError, RecursionError) as error:
            yield Rejected(where, explain(piece, error), end)
            continue
        if isinstance(value, dict):
            yield Record(where, piece.data, value, end)
        else:
            yield Rejected(where, f"{_KINDS[type(value)]}, not an object (at byte {piece.offset})", end)
        if piece.cut:
            yield Rejected(source.name, f"cut short: it ends at byte {end} without the closing ]", end)


def pieces(source: Source, reader: Reader, layout: Layout) -> Iterator[tuple[str, Piece]]:
    """The bytes of each record with its place: `results.json[7]`, `results.jsonl:12`, `one.json`."""
    if layout is Layout.ARRAY:
        for index, piece in enumerate(split.array(reader)):
            yield f"{source.name}[{index}]", piece
    elif layout is Layout.LINES:
        for piece in split.lines(reader):
            yield f"{source.name}:{piece.line}", piece
    else:
        for index, piece in enumerate(split.documents(reader)):
            yield (f"{source.name}[{index}]" if index else source.name), piece


def find_layout(source: Source, reader: Reader) -> Layout:
    """How this file holds its records; BadRecord if it is no JSON text at all."""
    fault = text_fault(reader.peek(HEAD))
    if fault:
        raise BadRecord(f"is {fault[0]}, not JSON", where=source.name, mend=fault[1])
    if _opening(reader) == b"[":
        return Layout.ARRAY
    if source.suffix.endswith((".jsonl", ".ndjson")):
        return Layout.LINES
    first, second = _two_lines(reader)
    whole = _is_object(first) and bool(first)
    return Layout.LINES if whole or (len(first) > 1 and _is_object(second)) else Layout.DOCUMENTS


def text_fault(head: bytes) -> tuple[str, str] | None:
    """What a file is whose first bytes are no JSON text, and the mend; None if they may be."""
    for opening, name, mend in _OPENINGS:
        if head.startswith(opening):
            return name, mend
    if head[:2] in _WIDE:
        return "UTF-16 text", f"convert it to UTF-8: iconv -f {_WIDE[head[:2]]} -t UTF-8"
    if b"\0" in head[:4096]:
        return _binary(head)
    text = head.lstrip()
    if text.startswith(b"<"):
        name = "an HTML page" if re.match(rb"<(?:!doctype\s+html|html)", text, re.IGNORECASE) else "XML or HTML"
        return name, "fetch the raw file itself"
    if not text:
        return "nothing but white space", "check how the file was written"
    if text[:1] not in b"{[":
        return _not_json(text)
    return None


def explain(piece: Piece, error: Exception) -> str:
    """Why a piece is no record, with the byte of the file where that shows."""
    data = piece.data or b""
    if isinstance(error, RecursionError):
        return f"nested too deep (at byte {piece.offset})"
    if piece.cut:
        return f"cut short: it begins at byte {piece.offset} and the file ends inside it"
    if not data:
        return f"nothing between two commas (at byte {piece.offset})"
    if "utf-8" in str(error).lower():
        return f"not valid UTF-8 (at byte {piece.offset + _utf8_fault(data)})"
    found = _BYTE.search(str(error))
    surrogate = _lone_surrogate(data) if not found or "surrogate" in str(error) or "escape" in str(error) else None
    if surrogate is not None:
        half = data[surrogate : surrogate + 6].decode()
        return f"holds {half}, half a character without its other half (at byte {piece.offset + surrogate})"
    if "truncated" in str(error):
        return f"cut short: it begins at byte {piece.offset} and ends {len(data)} bytes later, unfinished"
    what = _BYTE.sub("", str(error)).removeprefix("JSON is malformed: ")
    at = int(found[1]) if found else 0
    at -= data[max(0, at - 1) : at] == b"-"
    number = _NOT_A_NUMBER.match(data, at)
    if number:
        return f"holds {number[0].decode()}, which is not JSON: write null instead (at byte {piece.offset + at})"
    return f"malformed JSON: {what[:1].lower()}{what[1:]} (at byte {piece.offset + at})"


def _lone_surrogate(data: bytes) -> int | None:
    """Where half of a surrogate pair stands alone."""
    high: int | None = None
    end = 0
    for escape in _ESCAPE.finditer(data):
        code = int(escape[1], 16) if escape[1] else 0
        low = 0xDC00 <= code < 0xE000
        if high is not None and not (low and escape.start() == end):
            return high
        if low and high is None:
            return escape.start()
        high = escape.start() if 0xD800 <= code < 0xDC00 else None
        end = escape.end()
    return high


def _utf8_fault(data: bytes) -> int:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _not_json(text: bytes) -> tuple[str, str]:
    line = text.split(b"\n", 1)[0]
    try:
        shown = line.decode()
    except UnicodeDecodeError:
        return _binary(text)
    if any(character < " " and character not in "\t\r" for character in shown):
        return _binary(text)
    if line.count(b",") or line.count(b"\t"):
        return "a table (CSV or the like)", "import the JSON it was made from"
    return f"text that begins {shown[:40]!r}", "give a file of JSON or JSON lines"


def _binary(head: bytes) -> tuple[str, str]:
    return f"binary data ({sniff(head)})", "give a file of JSON or JSON lines"


def _opening(reader: Reader) -> bytes:
    return reader.peek(HEAD).lstrip()[:1]


def _two_lines(reader: Reader) -> tuple[bytes, bytes]:
    """The first two lines that are not blank, as far as a record may reach."""
    size = HEAD
    while True:
        head = reader.peek(size)
        lines = [line for line in (line.strip() for line in head.split(b"\n")) if line]
        if len(lines) > 2 or len(head) < size or size > MAX_RECORD:
            return lines[0], lines[1] if len(lines) > 1 else b""
        size *= 4


def _is_object(line: bytes) -> bool:
    if not line.startswith(b"{"):
        return False
    try:
        _decode(line)
    except (ValueError, RecursionError):
        return False
    return True
