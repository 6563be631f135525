"""Texts made fit to look at: what would steer a terminal or turn a line around is written out."""

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
_ADDRESS = re.compile("(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_NAMES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, *, lines: bool = False) -> str:
    """The text with control, direction-changing and lone-surrogate characters written out
    (`\\x1b`). `lines` keeps newlines and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: _spell(found[0], lines), text)


def _spell(character: str, lines: bool) -> str:
    if lines and character in "\n\t":
        return character
    code = ord(character)
    return _NAMES.get(character) or (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
    )


def short(text: str) -> str:
    """The text with each blob's address cut to its first digits, which tell it from its neighbours."""
    return _ADDRESS.sub(r"\1…", text) if "sha256:" in text else text
