"""n-grams: what a text and every part of it have in common, as numbers below `SLOTS`.

A text is cut into words at white space, quotes and brackets, and each word, with the cut on either
side, into runs of four characters, or of two where it is written in CJK, whose characters say more.
A pattern can only stand in texts that have all of its runs. Different runs may share a number, so
what is narrowed down this way is then looked at.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

from eventlog.search.normal import folded

SLOTS: Final = 1 << 17

_SEPARATORS = str.maketrans(dict.fromkeys("\"'`{}[]()<>,;=|!?*\\", " "))
_WORD = re.compile(r"\S+")
_DENSE = "\u2e80"
"""From here on in Unicode, two characters say as much as four before."""


def words(text: str) -> list[str]:
    """The words of a text, folded."""
    return folded(text).translate(_SEPARATORS).split()


def slots(word: str) -> Iterator[int]:
    """The numbers of a word's runs."""
    return _runs(f" {word} ")


def required(literals: Iterable[str]) -> set[int]:
    """The numbers that every text has which holds all of these literals; empty where they are too short."""
    found: set[int] = set()
    for literal in literals:
        text = folded(literal).translate(_SEPARATORS)
        for word in _WORD.finditer(text):
            before = " " if word.start() > 0 else ""
            after = " " if word.end() < len(text) else ""
            found.update(_runs(f"{before}{word[0]}{after}"))
    return found


def _runs(text: str) -> Iterator[int]:
    if text.isascii():
        data = text.encode()
        for i in range(len(data) - 3):
            yield crc32(data[i : i + 4]) & (SLOTS - 1)
        return
    for i, character in enumerate(text):
        length = 2 if character >= _DENSE else 4
        run = text[i : i + length]
        if len(run) == length:
            yield crc32(run.encode()) & (SLOTS - 1)
