"""What the processes of one test run share: the first that asks makes it, and keeps it for the others."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO


def run_folder(own: Path) -> Path | None:
    """The folder of the run, given the process's own; None where this process is the whole run."""
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else None


@contextmanager
def once(folder: Path | None, name: str, make: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    """What `make` makes, told by a text: this process's own, or that of another in the run's `folder`.

    Whoever made it ends it when all that use it have done so, however they end: they hold a lock meanwhile.
    """
    if folder is None:
        with make() as made:
            yield made
        return
    told = folder / name
    with ExitStack() as ours:
        with alone(folder / f"{name}.turn"):
            mine = not told.exists()
            if mine:
                made = ours.enter_context(make())
                told.write_text(made)
            made = told.read_text()
            users = told.with_name(f"{name}.users").open("a")
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield made
        finally:
            _done(users, told if mine else None, folder / f"{name}.turn")


def _done(users: IO[str], told: Path | None, turn: Path) -> None:
    with users:
        if told is None:
            return
        with alone(turn):
            told.unlink()  # who comes now makes another
        fcntl.flock(users, fcntl.LOCK_EX)


@contextmanager
def alone(file: Path) -> Iterator[None]:
    """Nobody else holds this lock meanwhile."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
