"""One form for texts that are the same to a reader: composed or not, full width or half, any case."""

import unicodedata
from collections.abc import Callable, Iterator

Span = tuple[int, int]
"""First character and the one after the last."""


def plain(text: str) -> str:
    """The text in NFKC."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def folded(text: str) -> str:
    """The text in NFKC without case; the dotted and the dotless i are one."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold().replace("i\u0307", "i").replace("\u0131", "i")


def located(text: str, form: Callable[[str], str], spans: list[Span]) -> tuple[str, list[Span]]:
    """The text with these spans of `form(text)` found in it: those of the characters they came from.
    Where that cannot be told, the form itself and the spans."""
    formed = form(text)
    if formed == text or (len(formed) == len(text) and text.isascii()):
        return text, spans
    starts: list[int] = []
    ends: list[int] = []
    joined = []
    at = 0
    for cluster in _clusters(text):
        piece = form(cluster)
        starts += [at] * len(piece)
        ends += [at + len(cluster)] * len(piece)
        joined.append(piece)
        at += len(cluster)
    if "".join(joined) != formed:
        return formed, spans
    return text, [(starts[first], ends[last - 1]) for first, last in spans]


def _clusters(text: str) -> Iterator[str]:
    """Each character with those that compose with it: combining marks, the letters of a Hangul syllable."""
    first = 0
    for i in range(1, len(text)):
        character = text[i]
        if not unicodedata.combining(character) and not "\u1160" <= character <= "\u11ff":
            yield text[first:i]
            first = i
    if text:
        yield text[first:]
