"""Texts inside JSON that is passed on verbatim: a decoder that skips them lets bytes by that are no UTF-8."""

import msgspec

_decode = msgspec.json.Decoder().decode


def check_texts(data: bytes) -> None:
    """`ValueError` where a text is no UTF-8. Half of a surrogate pair the decoder finds that skips it."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            _decode(data)
            raise
