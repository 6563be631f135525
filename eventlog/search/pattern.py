"""What is searched for: a text or a regular expression, looked for line by line."""

import re
import unicodedata
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from core.errors import UsageError
from eventlog.search import grams
from eventlog.search.normal import Span, folded, located, plain

_MOST: Final = 24
"""Numbers that are asked of the index: more say little more."""

_INERT = re.compile(rb"[A-Za-z0-9_ -]*[A-DF-Za-df-z_][A-Za-z0-9_ -]*")
"""Patterns that stand in the JSON of a text just as in the text: no escapes, no numbers."""


class Found(NamedTuple):
    """A line that matches, and where in it."""

    line: str
    spans: list[Span]


class Pattern:
    """`required` are the n-gram numbers of every text that can match; empty where that is not known.
    `UsageError` for a pattern that cannot be."""

    def __init__(self, text: str, *, regex: bool = False, ignore_case: bool = False) -> None:
        _check(text)
        self._form = folded if ignore_case and not regex else plain
        self._regex = None
        self._text = ""
        if regex:
            self._regex, literals = _compiled(text, ignore_case)
        else:
            self._text = self._form(text)
            literals = [text]
        self.required = sorted(grams.required(literals))[:_MOST]
        self._probe = self._text.encode()
        self._folds = ignore_case
        self._probing = not regex and _INERT.fullmatch(self._probe) is not None

    def may_match(self, body: bytes) -> bool:
        """A quick look at an event's JSON; False only where no text in it matches."""
        if not self._probing:
            return True
        found = self._probe in (body.lower() if self._folds else body)
        return found or not body.isascii() or b"\\u" in body or b'"address"' in body

    def lines(self, text: str) -> Iterator[Found]:
        """The lines of a text that match."""
        if self._regex is None:
            formed = self._form(text)
            if self._text not in formed:
                return
        for line in text.split("\n"):
            spans = list(self._spans(self._form(line)))
            if spans:
                yield Found(*located(line, self._form, spans))

    def _spans(self, formed: str) -> Iterator[Span]:
        if self._regex is not None:
            for match in self._regex.finditer(formed):
                if match.end() > match.start():
                    yield match.span()
            return
        at = formed.find(self._text)
        while at >= 0:
            yield at, at + len(self._text)
            at = formed.find(self._text, at + len(self._text))


def _check(text: str) -> None:
    if not text.strip():
        raise UsageError("the pattern is empty", where="PATTERN")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError("the pattern is not UTF-8", where="PATTERN") from None
    if "\n" in text:
        raise UsageError("the pattern has a line break", where="PATTERN", mend="text is searched line by line")


def _compiled(text: str, ignore_case: bool) -> tuple[re.Pattern[str], list[str]]:
    """The expression for texts in NFKC, and literals that every match holds."""
    flags = re.IGNORECASE if ignore_case else 0
    source = "".join(_plain_symbol(symbol) for symbol in unicodedata.normalize("NFC", text))
    try:
        compiled = re.compile(source, flags)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(f"not a regular expression: {error}", where="PATTERN", mend="or search the text: -F") from None
    return compiled, _literals(source, flags)


def _plain_symbol(symbol: str) -> str:
    if symbol.isascii():
        return symbol
    formed = plain(symbol)
    return formed if formed.isalnum() else re.escape(formed)


def _literals(source: str, flags: int) -> list[str]:
    """Runs of characters that every match holds: read off the parsed expression, as far as that can
    be understood."""
    try:
        parsed = import_module("re._parser").parse(source, flags)
        return _runs_of(parsed)
    except (ImportError, AttributeError, TypeError, ValueError, RecursionError):
        return []


def _runs_of(parsed: Any) -> list[str]:
    runs = [""]
    for operation, value in parsed:
        name = str(operation)
        if name == "LITERAL":
            runs[-1] += chr(value)
        elif name == "SUBPATTERN":
            runs += [*_runs_of(value[3]), ""]
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] > 0:
            runs += [*_runs_of(value[2]), ""]
        elif name == "ATOMIC_GROUP":
            runs += [*_runs_of(value), ""]
        elif name != "AT":
            runs.append("")
    return [run for run in runs if run]
