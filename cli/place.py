"""Where `-o FILE` of a command goes."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from core.errors import NotFound, UsageError

STDOUT = "-"
_MODE = 0o644


@contextmanager
def place(out: str, force: bool) -> Iterator[BinaryIO]:
    """Where a command's output is written to: stdout, a device or a pipe as it is; a file appears when it is whole."""
    if out == STDOUT:
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    path = Path(out).expanduser().resolve()
    if path.is_dir():
        raise UsageError("is a folder", where=out, mend="name a file in it")
    if path.is_file() and not force:
        raise UsageError("is there already", where=out, mend="name another place, or replace it with --force")
    if not path.parent.is_dir():
        raise NotFound("there is no such folder", where=str(path.parent), mend="make it, or name another")
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    from eventlog import disk

    try:
        with disk.writing(path, _MODE) as file:
            yield file
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(".tmp"):
            error.filename = out
        raise
