"""What a release is named after: fixed for ever, golden vectors in tests/learners/golden.

A row's bytes are MessagePack, each value in its shortest form, of [stream, version, row, *values, *text]:
no log id, position, seal or time. A row's digest is SHA-256(`trajlog/row/1` ‖ 0 ‖ bytes). The rows of a log
have the digest SHA-256(`trajlog/rows/1` ‖ 0 ‖ digests in canonical order). The release's id is
SHA-256(`trajlog/release/1` ‖ 0 ‖ fields), encoded as `core.digest` does: 1 view, 2 its version u32,
3 how text was written, 4 recipe as canonical JSON, 5 the digests of the logs' rows in ascending order, so
that logs may have other ids on another machine.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

from core.digest import fields

ROW_LABEL: Final = b"trajlog/row/1\0"
ROWS_LABEL: Final = b"trajlog/rows/1\0"
RELEASE_LABEL: Final = b"trajlog/release/1\0"
FILES_LABEL: Final = b"trajlog/files/1\0"

_pack = msgspec.msgpack.Encoder().encode


def row_bytes(stream: str, version: int, row: int, values: tuple[Any, ...]) -> bytes:
    """A row's canonical bytes; `values` nest tuples and lists, of null, bool, int, float and text."""
    return _pack((stream, version, row, *values))


def row_digest(data: bytes) -> bytes:
    """SHA-256 (32 bytes) of a row's canonical bytes."""
    return sha256(ROW_LABEL + data).digest()


def reference(values: tuple[Any, ...]) -> bytes:
    """16 bytes, equal where a view gave the same values: then the events they refer to are the same."""
    return sha256(_pack(values)).digest()[:16]


class Rows:
    """The digest of one log's rows, given in canonical order."""

    def __init__(self) -> None:
        self._hash = sha256(ROWS_LABEL)
        self.count = 0

    def add(self, digest: bytes) -> None:
        self._hash.update(digest)
        self.count += 1

    def digest(self) -> bytes:
        return self._hash.digest()


def release_id(view: str, version: int, text: str | None, recipe: bytes, logs: Iterable[bytes]) -> bytes:
    """The id (32 bytes). `text` names how messages were written, None where the view has none; `logs` are the
    digests of each log's rows."""
    return sha256(
        RELEASE_LABEL
        + fields(
            [
                (1, view.encode()),
                (2, version.to_bytes(4, "big")),
                (3, None if text is None else text.encode()),
                (4, recipe),
                (5, b"".join(sorted(logs))),
            ]
        )
    ).digest()


def files_digest(files: Iterable[tuple[str, str]]) -> str:
    """SHA-256, hex, of (name, hex digest) pairs, by name."""
    return sha256(FILES_LABEL + "".join(f"{digest}  {name}\n" for name, digest in sorted(files)).encode()).hexdigest()
