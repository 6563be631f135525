"""Media types are judged by the bytes; a caller may refine the judgement, not contradict it."""

import gzip
import io
import json
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.blobs.media_type import HEAD_BYTES, Sniffer, sniff


def _zip() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "b")
    return file.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
WEBP = b"RIFF\x24\0\0\0WEBPVP8 "


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (WEBP, "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "application/octet-stream"),
        (b"GIF89a\1\0\1\0", "image/gif"),
        (b"%PDF-1.7\n%\xe2\xe3", "application/pdf"),
        (_zip(), "application/zip"),
        (gzip.compress(b"x", mtime=0), "application/gzip"),
        (b"\x28\xb5\x2f\xfd\x04\0", "application/zstd"),
        (b'{"a": [1, null]}', "application/json"),
        (b'\n  [ {"a": 1} ]\n', "application/json"),
        (b"[]", "application/json"),
        ("\ufeff{}".encode(), "application/json"),
        (b"[" * 5000 + b"]" * 5000, "application/json"),
        (b'{"a": 1}\n{"a": 2}\n', "text/plain"),
        (b"[draft] one two [end]", "text/plain"),
        (b"{not json}", "text/plain"),
        (b'{"a": 1', "text/plain"),
        (b"<?xml version='1.0'?><hierarchy/>", "application/xml"),
        (b"<!DOCTYPE html>\n<html></html>", "text/html"),
        (b"<html lang='en'>", "text/html"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        ("Grüße, 世界\n".encode(), "text/plain"),
        (b"\x1b[31mred\x1b[0m", "text/plain"),
        (b"", "text/plain"),
        (b"caf\xe9", "application/octet-stream"),
        ("wide".encode("utf-16"), "application/octet-stream"),
        (b"text with a \0", "application/octet-stream"),
        ("cut in a character: é".encode()[:-1], "application/octet-stream"),
    ],
)
def test_the_bytes_decide(data: bytes, expected: str) -> None:
    assert sniff(data) == expected


@pytest.mark.parametrize(
    ("data", "claimed", "expected"),
    [
        (PNG, "image/jpeg", "image/png"),
        (PNG, "text/plain", "image/png"),
        (b"plain words", "image/png", "text/plain"),
        (b"plain words", "application/json", "text/plain"),
        (b"plain words", "text/markdown", "text/markdown"),
        (b"a: 1", "application/yaml", "application/yaml"),
        (b'{"a": 1}', "application/vnd.api+json", "application/vnd.api+json"),
        (b'{"a": 1}', "text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        (b"\x01\x02", "video/mp4", "video/mp4"),
        (b"\x01\x02", "text/plain", "application/octet-stream"),
        (b"\x01\x02", "image/png", "application/octet-stream"),
        (_zip(), "application/vnd.android.package-archive", "application/vnd.android.package-archive"),
        (_zip(), "image/png", "application/zip"),
        (_zip(), "application/json", "application/zip"),
        (b"plain words", "Text/CSV", "text/csv"),
        (b"plain words", "no type\r\nX-Header: 1", "text/plain"),
        (b"plain words", "", "text/plain"),
    ],
)
def test_a_claim_is_believed_only_where_the_bytes_allow_it(data: bytes, claimed: str, expected: str) -> None:
    assert sniff(data, claimed) == expected


def test_a_large_json_document_is_known_by_its_ends() -> None:
    document = json.dumps(["x" * 100] * 2000).encode()
    assert len(document) > HEAD_BYTES
    assert sniff(document) == "application/json"
    assert sniff(document + b" and more") == "text/plain"
    assert sniff(b'{"line": 1}\n' * 20_000) == "text/plain"


@given(st.one_of(st.binary(max_size=300), st.text(max_size=100).map(str.encode)), st.integers(1, 50))
def test_how_the_bytes_are_cut_into_chunks_changes_nothing(data: bytes, step: int) -> None:
    sniffer = Sniffer()
    for start in range(0, len(data), step):
        sniffer.feed(data[start : start + step])
    assert sniffer.media_type() == sniff(data)
