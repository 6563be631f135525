"""Blobs in a local folder: written to the side, made durable, then named by their digest. Small ones
that come many at a time share one file.

root/  sha256/ab/<64 hex>  small.sqlite  incoming/  .lock
"""

import fcntl
import heapq
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from eventlog import disk
from eventlog.blobs.small import Small

SMALL_BYTES = 131_072
"""Blobs of up to that size share a file if many are stored at once."""

_SYNCS = 16


class Files:
    """A shelf of blobs in a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._small = Small(root / "small.sqlite")

    def where(self, digest: str) -> str:
        """The file that holds the blob, or would."""
        path = self._path(digest)
        return str(path if path.exists() or self._small.size(digest) is None else self._small.path)

    def draft(self) -> "FileDraft":
        """A blob to be written, whose digest is not known yet."""
        return FileDraft(self._root / "incoming", self._keep)

    def renew(self, digest: str, size: int) -> bool:
        """Whether the whole blob is here; if so it counts as just stored, so that `remove` spares it."""
        path = self._path(digest)
        with disk.faults(path), suppress(FileNotFoundError):
            if path.stat().st_size == size:
                with self._lock(fcntl.LOCK_SH):
                    os.utime(path)
                self._sync(path)
                return True
        return self._small.renew(digest, size)

    def keep_all(self, blobs: Mapping[str, bytes]) -> None:
        """Store blobs by their digests: small ones in one transaction, the files of others made durable
        side by side, each folder once."""
        small = {digest: data for digest, data in blobs.items() if len(data) <= SMALL_BYTES}
        if small:
            with disk.faults(self._small.path):
                self._small.keep_all(small)
        if len(small) < len(blobs):
            self._keep_large({digest: data for digest, data in blobs.items() if digest not in small})

    def _keep_large(self, blobs: Mapping[str, bytes]) -> None:
        incoming = self._root / "incoming"
        with disk.faults(incoming), ThreadPoolExecutor(_SYNCS) as pool:
            incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock(fcntl.LOCK_SH):
                list(pool.map(self._keep_late, blobs.items()))
            folders = {self._path(digest).parent for digest in blobs}
            list(pool.map(disk.sync_folder, [*folders, self._root / "sha256", self._root]))

    def size(self, digest: str) -> int | None:
        """Bytes of the blob, or None if it is not here."""
        path = self._path(digest)
        with disk.faults(path), suppress(FileNotFoundError):
            return path.stat().st_size
        return self._small.size(digest)

    def open(self, digest: str) -> BinaryIO | None:
        """The blob's bytes, or None if it is not here."""
        path = self._path(digest)
        with disk.faults(path), suppress(FileNotFoundError):
            return path.open("rb")
        data = self._small.read(digest)
        return None if data is None else io.BytesIO(data)

    def names(self) -> Iterator[tuple[str, int, float]]:
        """What lies here, in order: name, size in bytes, when it was last stored (seconds since 1970)."""
        last = None
        for found in heapq.merge(self._files(), self._small.names()):
            if found[0] != last:
                yield found
            last = found[0]

    def _files(self) -> Iterator[tuple[str, int, float]]:
        with disk.faults(self._root):
            for shard in sorted(self._root.glob("sha256/??")):
                for path in sorted(shard.iterdir()):
                    with suppress(FileNotFoundError):
                        found = path.stat()
                        yield path.name, found.st_size, found.st_mtime

    def remove(self, digest: str, before: float) -> bool:
        """Remove a blob that was last stored before that time (seconds since 1970)."""
        path = self._path(digest)
        with disk.faults(path), self._lock(fcntl.LOCK_EX), suppress(FileNotFoundError):
            if path.stat().st_mtime < before:
                path.unlink()
                return self._small.remove(digest, before) or self._small.size(digest) is None
            return False
        return self._small.remove(digest, before)

    def close(self) -> None:
        """Let go of what is open; the shelf stays usable."""
        self._small.close()

    def sweep(self, before: float) -> None:
        """Remove the drafts that a killed writer left before that time."""
        incoming = self._root / "incoming"
        with disk.faults(incoming), suppress(FileNotFoundError):
            for path in incoming.iterdir():
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < before:
                        path.unlink()

    def _keep(self, draft: Path, digest: str) -> None:
        path = self._path(digest)
        with disk.faults(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock(fcntl.LOCK_SH):
                draft.rename(path)
            self._sync(path)

    def _keep_late(self, blob: tuple[str, bytes]) -> None:
        """Store a blob whose folders are still to be made durable, while the lock is held."""
        digest, data = blob
        path = self._path(digest)
        with suppress(FileNotFoundError):
            if path.stat().st_size == len(data):
                os.utime(path)
                return
        draft = self._root / "incoming" / f"{os.getpid()}-{time.time_ns()}-{digest[:16]}"
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                draft.rename(path)
            except FileNotFoundError:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft.rename(path)
        except BaseException:
            with suppress(OSError):
                draft.unlink()
            raise

    def _sync(self, path: Path) -> None:
        """Make the way to a blob durable; also what another writer may have made a moment ago."""
        for folder in (path.parent, path.parent.parent, self._root):
            disk.sync_folder(folder)

    def _path(self, digest: str) -> Path:
        return self._root / "sha256" / digest[:2] / digest

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        """Writers share it, `remove` has it alone: a blob stored anew while being collected stays."""
        descriptor = os.open(self._root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)


class FileDraft:
    """A file in the making. It is gone after `discard` unless `keep` came first."""

    def __init__(self, folder: Path, keep: Callable[[Path, str], None]) -> None:
        self._path = folder / f"{os.getpid()}-{time.time_ns()}-{os.urandom(4).hex()}"
        self._keep = keep
        with disk.faults(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def write(self, chunk: bytes) -> None:
        """Append to the blob."""
        with disk.faults(self._path):
            self._file.write(chunk)

    def keep(self, digest: str) -> None:
        """The blob is whole: make it durable under its digest."""
        with disk.faults(self._path):
            self._file.flush()
            os.fchmod(self._file.fileno(), 0o400)
            os.fsync(self._file.fileno())
        self._keep(self._path, digest)

    def discard(self) -> None:
        """Drop what was not kept."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink()
