"""Texts as cells of a terminal: whatever was recorded, a line takes the width it is given and no more.

Control and direction-changing characters are written out. Joiners and variation selectors between
emoji are left out and stacks of combining marks cut, since terminals do not agree on their width.
"""

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells, set_cell_size

from cli.terminal import clean

_JOINED = re.compile("(?<=[^\\w\\s])\u200d|[\ufe00-\ufe0f\u2060\u200b]")
_MARKS = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_STACK = re.compile(f"({_MARKS}{{3}}){_MARKS}+")
_TAB = 4


def flat(text: str) -> str:
    """The text on one line, safe to print."""
    text = clean(text.expandtabs(_TAB))
    return text if text.isascii() else _STACK.sub(r"\1", _JOINED.sub("", text))


def fit(text: str, width: int) -> str:
    """A flat text in exactly so many cells: filled with blanks, or cut with an ellipsis."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, width - 1) + "…" if width > 0 else ""


def wrapped(text: str, width: int) -> Iterator[str]:
    """A flat text in lines of at most so many cells, broken between words where that is near."""
    width = max(width, 2)
    at = 0
    while len(text) - at > width * 2 or cell_len(text[at:]) > width:
        piece = _head(text[at : at + width * 2], width)
        follows = text[at + len(piece) : at + len(piece) + 1]
        blank = piece.rfind(" ", width * 2 // 3) if follows != " " else -1
        if blank > 0:
            piece = piece[: blank + 1]
        yield piece.rstrip(" ")
        at += len(piece)
        at += text[at : at + 1] == " "
    yield text[at:]


def _head(text: str, width: int) -> str:
    """As much of the text as fits."""
    if text.isascii():
        return text[:width]
    pieces = chop_cells(text, width)
    return pieces[0] if pieces else text  # nothing in it takes a cell


def split(text: str, needle: str) -> Iterator[tuple[str, bool]]:
    """The text in parts, and whether each is what was searched for."""
    folded = text.casefold()
    at = 0
    if needle and len(folded) == len(text):
        while (found := folded.find(needle, at)) >= 0:
            if found > at:
                yield text[at:found], False
            yield text[found : found + len(needle)], True
            at = found + len(needle)
    if at < len(text) or not text:
        yield text[at:], False
