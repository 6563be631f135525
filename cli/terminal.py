"""What the terminal can take: no control characters from data, colours only where wanted, widths."""

import os
import sys
import unicodedata
from typing import TextIO

from core.visible import visible

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def clean(text: str, *, lines: bool = False) -> str:
    """The text with control, direction-changing and lone-surrogate characters written out
    (`\\x1b`), so that data can never steer the terminal. `lines` keeps newlines and tabs."""
    return visible(text, lines=lines)


def width(text: str) -> int:
    """Columns the text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, columns: int) -> str:
    """The text, shortened to at most so many columns with an ellipsis."""
    if width(text) <= columns:
        return text
    kept = ""
    for character in text:
        if width(kept + character) > columns - 1:
            break
        kept += character
    return kept + "…" if columns > 0 else ""


def columns(stream: TextIO | None = None) -> int | None:
    """The terminal's width, or None where the stream is not a terminal (then nothing is cut)."""
    if not interactive(stream or sys.stdout):
        return None
    import shutil

    return max(shutil.get_terminal_size().columns, 20)


def interactive(stream: TextIO) -> bool:
    """Whether the stream is a terminal."""
    try:
        return stream.isatty()
    except ValueError:
        return False


def style(text: str, *names: str, stream: TextIO | None = None) -> str:
    """The text in these styles, where the stream is a terminal that wants colours (NO_COLOR, TERM)."""
    if not interactive(stream or sys.stdout) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{';'.join(_STYLES[name] for name in names)}m{text}\x1b[0m"


def forgive_encoding() -> None:
    """Characters that the terminal's encoding lacks are spelt out instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
