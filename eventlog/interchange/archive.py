"""Reads the files inside a zip archive that nobody vouches for, one at a time, in bounded memory.

Nothing is written anywhere. Refused are entries with a path out of the archive, encrypted ones,
archives in the archive, and what unpacks to far more than it is. Of an archive that was cut short,
and so lost its directory, the entries that are whole are found by their own headers.
"""

import zipfile
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO, NamedTuple

from core.errors import BadRecord
from eventlog.interchange.split import MAX_RECORD

MAX_RATIO = 1_000
"""How many times its size an entry of over 1 MB may unpack to: no log is that repetitive."""
MAX_TOTAL_RATIO = 200
FREE_TOTAL = 1 << 30
"""What all entries may unpack to, whatever the archive's size."""
MAX_DIRECTORY = 16 << 20
MAX_WINDOW = 1 << 27

_LOCAL = Struct("<4sHHHHHIIIHH")
_END = Struct("<4sHHHHIIH")
_END_64 = Struct("<4sQHHIIQQQQ")
_SIZES_64 = 0xFFFFFFFF
_ENCRYPTED, _SIZES_FOLLOW = 1, 8
_STORED, _DEFLATED, _ZSTD = 0, 8, 93
_ARCHIVES = (".zip", ".eval", ".gz", ".zst", ".tar", ".tgz", ".bz2", ".xz", ".7z")


class Entry(NamedTuple):
    """A file in the archive: where its header lies, its packed and its unpacked size."""

    name: str
    offset: int
    packed: int
    size: int
    method: int
    flags: int
    crc: int


class Refused(Exception):
    """An entry that is not read, and why."""


class Archive:
    """A zip archive. `cut` says that it ended before its directory."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.length = file.seek(0, 2)
        self.cut = False
        try:
            size = _directory_size(file, self.length)
            if size is not None and size > MAX_DIRECTORY:
                raise BadRecord(f"an archive whose directory takes {size:,} bytes", where=name, mend="split it up")
            with zipfile.ZipFile(file) as archive:
                listed = [_listed(info) for info in archive.infolist()]
        except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
            self.cut = True
            listed = list(_scanned(file, self.length))
        self.entries = list({entry.name: entry for entry in listed}.values())
        total = sum(entry.size for entry in listed)
        if total > FREE_TOTAL and total > MAX_TOTAL_RATIO * self.length:
            what = f"a zip bomb: {self.length:,} bytes that would unpack to {total:,}"
            raise BadRecord(what, where=name, mend="do not import it")

    def read(self, entry: Entry) -> bytes:
        """An entry's bytes. `Refused` if it is better not read."""
        why = _fault(entry)
        if why:
            raise Refused(why)
        if not 0 <= entry.offset < self.length:
            raise Refused("is not where the archive's directory says")
        self._file.seek(entry.offset)
        header = self._file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
            raise Refused("is not where the archive's directory says")
        names, extra = _LOCAL.unpack(header)[-2:]
        self._file.seek(names + extra, 1)
        packed = self._file.read(entry.packed)
        if len(packed) < entry.packed:
            raise Refused("is cut short")
        data = _unpacked(packed, entry)
        if len(data) != entry.size:
            raise Refused(f"unpacks to {'more' if len(data) > entry.size else 'less'} than it declares")
        if zlib.crc32(data) != entry.crc:
            raise Refused("is damaged: its checksum is wrong")
        if data.startswith((b"PK\3\4", b"\x1f\x8b")):
            raise Refused("is an archive inside the archive")
        return data


def _fault(entry: Entry) -> str | None:
    """Why an entry is refused unread."""
    parts = entry.name.replace("\\", "/").split("/")
    if entry.name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0] or "\0" in entry.name:
        return "has a path that leads out of the archive"
    if entry.flags & _ENCRYPTED:
        return "is encrypted"
    if entry.name.lower().endswith(_ARCHIVES):
        return "is an archive inside the archive"
    if entry.method not in (_STORED, _DEFLATED, _ZSTD):
        return f"is packed by a method that is not read here ({entry.method})"
    if entry.size > MAX_RECORD or entry.packed > MAX_RECORD:
        return f"is larger than {MAX_RECORD >> 20} MB"
    if entry.size > 1 << 20 and entry.size > MAX_RATIO * entry.packed:
        return f"is a zip bomb: it would unpack to {entry.size // max(entry.packed, 1):,} times its size"
    return None


def _unpacked(packed: bytes, entry: Entry) -> bytes:
    """The entry's bytes, at most one more than it declares."""
    if entry.method == _STORED:
        return packed
    limit = entry.size + 1
    try:
        if entry.method == _DEFLATED:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, limit)
        import zstandard

        reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        with reader.stream_reader(packed, read_across_frames=True) as stream:
            return b"".join(_read(stream, limit))
    except (zlib.error, MemoryError) as error:
        raise Refused(f"is damaged: {error}") from error
    except ImportError as error:
        raise Refused("is packed with zstd: install it with pip install zstandard") from error
    except Exception as error:
        if type(error).__name__ == "ZstdError":
            raise Refused(f"is damaged: {error}") from error
        raise


def _read(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    while limit > 0 and (data := stream.read(min(limit, 1 << 20))):
        limit -= len(data)
        yield data


def _listed(info: zipfile.ZipInfo) -> Entry:
    return Entry(
        info.orig_filename,
        info.header_offset,
        info.compress_size,
        info.file_size,
        info.compress_type,
        info.flag_bits,
        info.CRC,
    )


def _scanned(file: BinaryIO, length: int) -> Iterator[Entry]:
    """The entries that are whole, by their own headers, front to back."""
    at = 0
    while True:
        file.seek(at)
        header = file.read(_LOCAL.size)
        if len(header) < _LOCAL.size or not header.startswith(b"PK\3\4"):
            return
        _, _, flags, method, _, _, crc, packed, size, names, extra = _LOCAL.unpack(header)
        name, more = file.read(names), file.read(extra)
        if _SIZES_64 in (packed, size) and more[:2] == b"\1\0":
            size, packed = int.from_bytes(more[4:12], "little"), int.from_bytes(more[12:20], "little")
        end = at + _LOCAL.size + names + extra + packed
        if flags & _SIZES_FOLLOW or end > length:
            return
        yield Entry(name.decode("utf-8", "replace"), at, packed, size, method, flags, crc)
        at = end


def _directory_size(file: BinaryIO, length: int) -> int | None:
    """How large the directory says it is, before it is read; None if there is none."""
    start = max(0, length - (1 << 16) - _END.size)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END.size:
        return None
    size = int(_END.unpack_from(tail, at)[5])
    large = tail.rfind(b"PK\6\6", 0, at)
    if size == _SIZES_64 and large >= 0 and at - large >= _END_64.size:
        return int(_END_64.unpack_from(tail, large)[8])
    return size
