"""The disk: durable, all-or-nothing file writes, and what the operating system's refusals mean."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from core.errors import DiskFull, TrajlogError, Unavailable, UsageError

_OTHER_HOME = "set TRAJLOG_HOME to a folder on another disk"


@contextmanager
def faults(where: Path) -> Iterator[None]:
    """Turn an `OSError` of the block into the `TrajlogError` that says what to do."""
    try:
        yield
    except OSError as error:
        raise translate(error, where) from error


def translate(error: OSError, where: Path) -> TrajlogError:
    """The domain error for `error`; the file that the error itself names comes before `where`."""
    place = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(where)
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return disk_full(place)
        case errno.EROFS:
            return Unavailable("the disk is read-only", where=place, mend=f"make it writable, or {_OTHER_HOME}")
        case errno.EACCES | errno.EPERM:
            return Unavailable(
                f"user {user_name(os.geteuid())} may not use it",
                where=place,
                mend="run as its owner, or set TRAJLOG_HOME to a folder of your own",
            )
        case errno.ENAMETOOLONG:
            return UsageError("the path is too long", where=place, mend="set TRAJLOG_HOME to a shorter one")
        case errno.ENOTDIR | errno.EEXIST:
            return UsageError("a file stands where a folder is needed", where=place, mend="move the file away")
        case _:
            return Unavailable(error.strerror or str(error), where=place)


def disk_full(where: Path | str) -> DiskFull:
    """No space left at `where`."""
    return DiskFull("no space left on the disk", where=str(where), mend=f"free some, or {_OTHER_HOME}")


def user_name(uid: int) -> str:
    """The name behind a user id, or the number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """A file to write to, which becomes `path` when the block ends well: any reader, and any crash, sees
    all of it or what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def write_atomic(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a whole file; see `writing`."""
    with writing(path, mode) as file:
        file.write(data)
