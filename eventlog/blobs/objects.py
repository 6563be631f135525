"""Blobs in an object store, through fsspec. An object appears whole or not at all, as such stores
have it; a draft is spooled here, since its name is known only when all of it was seen."""

import io
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog import disk

_SPOOL_BYTES = 8 << 20
_UPLOADS = 16
_RENEW_S = 1800  # an object stored longer ago is written again, so that `remove` sees it as young


class Objects:
    """A shelf of blobs under an fsspec URL."""

    def __init__(self, url: str) -> None:
        import fsspec.core  # type: ignore[import-untyped]

        self._url = url.rstrip("/")
        try:
            self._store, root = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            raise UsageError(f"{error}", where=url, mend="install that package beside trajlog") from error
        except ValueError as error:
            raise UsageError(f"{error}", where=url, mend="give a folder or a URL that fsspec knows") from error
        except Exception as error:
            raise _unavailable(error, url) from error
        self._root = root.rstrip("/")

    def where(self, digest: str) -> str:
        """The blob's URL."""
        return f"{self._url}/sha256/{digest[:2]}/{digest}"

    def draft(self) -> "ObjectDraft":
        """A blob to be written, whose digest is not known yet."""
        return ObjectDraft(self)

    def renew(self, digest: str, size: int) -> bool:
        """Whether the whole blob is here and was stored a short while ago."""
        found = self._info(digest)
        return found is not None and found["size"] == size and _stored_at(found) > time.time() - _RENEW_S

    def size(self, digest: str) -> int | None:
        """Bytes of the blob, or None if it is not here."""
        found = self._info(digest)
        return None if found is None else int(found["size"])

    def open(self, digest: str) -> BinaryIO | None:
        """The blob's bytes, or None if it is not here."""
        with self._faults(self.where(digest)), suppress(FileNotFoundError):
            return cast(BinaryIO, self._store.open(self._path(digest), "rb"))
        return None

    def names(self) -> Iterator[tuple[str, int, float]]:
        """What lies here: name, size in bytes, when it was last stored (seconds since 1970)."""
        for shard in range(256):
            found: dict[str, dict[str, Any]] = {}
            with self._faults(self._url), suppress(FileNotFoundError):
                found = self._store.find(f"{self._root}/sha256/{shard:02x}", detail=True)
            for path in sorted(found):
                yield path.rpartition("/")[2], int(found[path]["size"]), _stored_at(found[path])

    def remove(self, digest: str, before: float) -> bool:
        """Remove a blob that was last stored before that time (seconds since 1970)."""
        found = self._info(digest)
        if found is None or _stored_at(found) >= before:
            return False
        with self._faults(self.where(digest)):
            self._store.rm_file(self._path(digest))
        return True

    def keep_all(self, blobs: Mapping[str, bytes]) -> None:
        """Store blobs by their digests, several at a time."""
        with ThreadPoolExecutor(_UPLOADS) as pool:
            list(pool.map(self._keep_one, blobs.items()))

    def close(self) -> None:
        """Nothing is kept open."""

    def sweep(self, before: float) -> None:
        """Nothing: an unfinished object was never there."""

    def keep(self, spool: BinaryIO, digest: str) -> None:
        """Store what was spooled."""
        path = self._path(digest)
        with self._faults(self.where(digest)):
            self._store.makedirs(path.rpartition("/")[0], exist_ok=True)
            with self._store.open(path, "wb") as target:
                while chunk := spool.read(1 << 20):
                    target.write(chunk)

    def _keep_one(self, blob: tuple[str, bytes]) -> None:
        digest, data = blob
        if not self.renew(digest, len(data)):
            self.keep(io.BytesIO(data), digest)

    def _path(self, digest: str) -> str:
        return f"{self._root}/sha256/{digest[:2]}/{digest}"

    def _info(self, digest: str) -> dict[str, Any] | None:
        with self._faults(self.where(digest)), suppress(FileNotFoundError):
            return cast(dict[str, Any], self._store.info(self._path(digest)))
        return None

    @contextmanager
    def _faults(self, where: str) -> Iterator[None]:
        """Every store raises errors of its own kind."""
        try:
            yield
        except (FileNotFoundError, TrajlogError):
            raise
        except Exception as error:
            raise _unavailable(error, where) from error


class ObjectDraft:
    """An object in the making."""

    def __init__(self, shelf: Objects) -> None:
        self._shelf = shelf
        self._spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115

    def write(self, chunk: bytes) -> None:
        """Append to the blob."""
        with disk.faults(Path(tempfile.gettempdir())):
            self._spool.write(chunk)

    def keep(self, digest: str) -> None:
        """The blob is whole: store it under its digest."""
        self._spool.seek(0)
        self._shelf.keep(cast(BinaryIO, self._spool), digest)

    def discard(self) -> None:
        """Drop the spool."""
        with suppress(OSError):
            self._spool.close()


def _stored_at(found: dict[str, Any]) -> float:
    """When an object was stored, by whichever name its store has for that; now, if by none."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        at = found.get(name)
        if isinstance(at, str):
            at = datetime.fromisoformat(at)
        if isinstance(at, datetime):
            return at.timestamp()
        if isinstance(at, int | float):
            return float(at)
    return time.time()


def _unavailable(error: Exception, where: str) -> Unavailable:
    text = " ".join(str(error).split()) or type(error).__name__
    return Unavailable(f"the object store refused: {text[:300]}", where=where, mend="check its address and credentials")
