"""Printing: data to stdout (text, tables, JSON), notes to stderr.

JSON: lists are one array, single things one object, streams JSON lines; each on as few lines as
that allows. Whatever is printed as text goes through `clean`; JSON keeps every character, and
escapes inside strings those that the terminal could not take.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from cli import settings
from cli.terminal import clean, columns, cut, interactive, style, width

__all__ = [
    "clean",
    "json_bytes",
    "json_text",
    "note",
    "print_error",
    "print_json",
    "print_json_array",
    "print_json_line",
    "print_table",
    "print_text",
    "style",
]


def print_text(text: str = "") -> None:
    """One line of text; `clean` data before it is joined with styles."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """A note on stderr, unless `--quiet`."""
    if not settings.quiet():
        sys.stdout.flush()
        print(clean(text), file=sys.stderr)


def print_error(text: str) -> None:
    """The one line that says why a command fails."""
    sys.stderr.write(f"trajlog: {clean(text)}\n")


def json_bytes(value: Any) -> bytes:
    """The value as JSON on one line; it may hold Structs and `msgspec.Raw`."""
    import msgspec

    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(_readable(value))
    # A raw payload may be spread over lines; a newline never stands inside a JSON string.
    if b"\n" in encoded or b"\r" in encoded:
        encoded = msgspec.json.format(encoded, indent=-1)
    return encoded


def json_text(value: Any, *, indent: int) -> str:
    """The value as JSON for people to read."""
    import msgspec

    return clean(msgspec.json.format(json_bytes(value), indent=indent).decode(), lines=True)


def _readable(value: Any) -> Any:
    """The value with file names of another encoding made into text."""
    if isinstance(value, str):
        try:
            return value.encode(errors="surrogateescape").decode(errors="replace")
        except UnicodeEncodeError:
            return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_readable(name): _readable(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(member) for member in value]
    return value


def print_json(value: Any) -> None:
    """One object."""
    _write(json_bytes(value) + b"\n")


def print_json_line(value: Any) -> None:
    """One object of a stream, seen by the reader at once."""
    print_json(value)
    sys.stdout.flush()


def print_json_array(rows: Iterable[Any]) -> None:
    """One array, a row a line, written as the rows come."""
    opening = b"["
    for row in rows:
        _write(opening + b"\n" + json_bytes(row))
        opening = b","
    _write(b"[]\n" if opening == b"[" else b"\n]\n")


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
    """Rows under heads. None is shown as `-`; columns named in `right` are aligned right; on a
    terminal, lines are cut to its width."""
    texts = [["-" if cell is None else clean(str(cell)) for cell in row] for row in rows]
    widths = [max([width(head), *(width(row[i]) for row in texts)]) for i, head in enumerate(heads)]
    to_right = [head in right for head in heads]
    limit = columns()

    def line(cells: Sequence[str]) -> str:
        parts = []
        for cell, size, align in zip(cells, widths, to_right, strict=True):
            blank = " " * (size - width(cell))
            parts.append(blank + cell if align else cell + blank)
        text = "  ".join(parts).rstrip()
        return text if limit is None else cut(text, limit)

    print_text(style(line(heads), "bold"))
    for row in texts:
        print_text(line(row))


_ESCAPE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")


def _write(encoded: bytes) -> None:
    """JSON to stdout, escaped where the terminal or its encoding needs that."""
    text = encoded.decode()
    if not text.isascii() or "\x7f" in text:
        unicode = (sys.stdout.encoding or "utf-8").lower().replace("_", "-") in ("utf-8", "utf8")
        unsafe = (_ESCAPE if interactive(sys.stdout) else None) if unicode else _NOT_ASCII
        if unsafe is not None:
            text = unsafe.sub(_json_escape, text)
    sys.stdout.write(text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
