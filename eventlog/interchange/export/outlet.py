"""Where exported episodes go: a folder of files, or one file of lines. What is there is whole: a file
gets its name only when all of it is written, and none is replaced unless that is asked for."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

from core.errors import NotFound, UsageError
from core.vocabulary import BlobRef
from eventlog.disk import sync_folder, write_atomic
from eventlog.interchange.whole import Fetch

MODE = 0o644

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


class Outlet(Protocol):
    """A place for documents, used in a `with` block."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def put(self, episode: str, document: bytes) -> None: ...
    def image(self, blob: BlobRef) -> str | None: ...


def outlet(out: str, suffix: str, episodes: Iterable[str], fetch: Fetch, *, force: bool) -> Outlet:
    """The place that `out` names: a folder if it is one, ends in a slash or has no suffix, else a file.
    `UsageError` if something would be replaced without `force`."""
    path = Path(out).expanduser()
    if path.is_dir() or out.endswith("/") or (not path.suffix and not path.exists()):
        return Folder(path, suffix, episodes, fetch, force=force)
    return Lines(path, force=force)


class Folder:
    """A file for each episode, and one in `images/` for each image that they show."""

    def __init__(self, path: Path, suffix: str, episodes: Iterable[str], fetch: Fetch, *, force: bool) -> None:
        self.path = path
        self.suffix = suffix
        self._fetch = fetch
        self._images: set[str] = set()
        if not force and path.is_dir():
            there = {file.name for file in path.iterdir()}
            for episode in episodes:
                if self._name(episode) in there:
                    raise _taken(path / self._name(episode))

    def __enter__(self) -> Self:
        if not self.path.resolve().parent.is_dir():
            raise _no_folder(self.path)
        self.path.mkdir(exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def put(self, episode: str, document: bytes) -> None:
        """Write the episode's file."""
        write_atomic(self.path / self._name(episode), document + b"\n", MODE)

    def image(self, blob: BlobRef) -> str | None:
        """Write an image; returns its path beside the episodes. None if its bytes cannot be had."""
        name = f"images/{blob.address.removeprefix('sha256:')}.{_ENDINGS.get(blob.media_type, 'img')}"
        if name not in self._images:
            data = self._fetch(blob.address)
            if data is None:
                return None
            (self.path / "images").mkdir(exist_ok=True)
            write_atomic(self.path / name, data, MODE)
            self._images.add(name)
        return name

    def _name(self, episode: str) -> str:
        safe = "".join(character if character.isalnum() or character in "-_." else "_" for character in episode)
        return f"{safe[:200]}{self.suffix}"


class Lines:
    """One file, a line for each episode. A device or a pipe is written to as it is."""

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path = path.resolve()
        self._direct = self.path.exists() and not self.path.is_file()
        if self.path.is_file() and not force:
            raise _taken(path)
        if not self.path.parent.is_dir():
            raise _no_folder(path)
        self._temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.tmp")
        self._file: BinaryIO

    def __enter__(self) -> Self:
        if self._direct:
            self._file = self.path.open("wb")
            return self
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        self._file = os.fdopen(os.open(self._temporary, flags, MODE), "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._direct:
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()
            if kind is None and not self._direct:
                self._temporary.replace(self.path)
                sync_folder(self.path.parent)
        finally:
            if not self._direct:
                with suppress(OSError):
                    self._temporary.unlink()

    def put(self, episode: str, document: bytes) -> None:
        """Write the episode's line."""
        self._file.write(document + b"\n")

    def image(self, blob: BlobRef) -> str | None:
        return None


def _no_folder(path: Path) -> NotFound:
    return NotFound("there is no such folder", where=str(path.parent), mend="make it, or name another")


def _taken(path: Path) -> UsageError:
    return UsageError("is there already", where=str(path), mend="name another place, or replace it with --force")
