"""What a picture is and how large, from its first bytes."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from eventlog.picture import Size, raster
from tests.eventlog.screenshots import png


def made(format: str, **options: object) -> bytes:
    out = BytesIO()
    Image.new("RGBA" if format == "WEBP" else "RGB", (321, 123), (10, 20, 30)).save(out, format, **options)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (made("PNG"), "image/png"),
        (made("GIF"), "image/gif"),
        (made("JPEG"), "image/jpeg"),
        (made("JPEG", progressive=True), "image/jpeg"),
        (made("JPEG", exif=b"Exif\0\0" + b"x" * 60_000, comment=b"c" * 60_000), "image/jpeg"),
        (made("WEBP"), "image/webp"),
        (made("WEBP", lossless=True), "image/webp"),
        (made("WEBP", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0"), "image/webp"),
    ],
)
def test_kind_and_size_are_read_from_the_bytes(data: bytes, kind: str) -> None:
    assert raster(data) == (kind, Size(321, 123))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"text",
        b"<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>",
        made("BMP"),
        png((1, 2, 3))[:24],
        png((1, 2, 3), 0, 5),
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\xff" * 30,
        made("JPEG")[:20],
        made("GIF")[:8],
        made("WEBP")[:20],
    ],
)
def test_anything_else_is_no_picture(data: bytes) -> None:
    assert raster(data) is None


@given(st.sampled_from([made("PNG"), made("GIF"), made("JPEG"), made("WEBP")]), st.data())
def test_damaged_heads_never_raise(data: bytes, choice: st.DataObject) -> None:
    at = choice.draw(st.integers(0, len(data) - 1))
    raster(data[:at] + choice.draw(st.binary(max_size=8)) + data[at + 1 :])
