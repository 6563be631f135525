"""A folder that is whole or not there: made beside its place, then moved."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def beside(place: Path) -> Iterator[Path]:
    """A folder for what is being made, gone afterwards unless it was moved."""
    made = Path(tempfile.mkdtemp(prefix=".making-", dir=place))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def move(made: Path, target: Path) -> None:
    """Put a finished folder in its place, durably."""
    made.chmod(0o755)
    made.rename(target)
    for folder in (target, target.parent):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
