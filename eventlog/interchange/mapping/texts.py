"""Texts inside JSON that is passed on verbatim: a decoder that does not look into them lets bad ones by."""

import msgspec

_decode = msgspec.json.Decoder().decode


def check_texts(data: bytes) -> None:
    """`ValueError` where a text is none: bytes that are no UTF-8, half of a surrogate pair."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            _decode(data)
            raise
    if b"\\ud" in data or b"\\uD" in data:
        _decode(data)
