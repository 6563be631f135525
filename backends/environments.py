"""Environments by name: those that come with trajlog, and those that were mounted.

A name may carry a version, as episodes record it: `phone@3f2a90c1d5e7`. There is one version of an
environment at a time, the one installed now: what asks for another is told so.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from backends.contract import Backend, Make
from core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from backends.tasks import Task


def _phone() -> Backend:
    from backends.phone import Phone

    return Phone()


def _phone_next() -> Backend:
    from backends.phone import Phone

    return Phone(environment="phone-next", renamed={"set_alarm": "create_alarm"})


BUILT_IN: Final[dict[str, Make]] = {"phone": _phone, "phone-next": _phone_next}


def names(home: Path) -> list[str]:
    """Every environment that can be used here."""
    from backends import mounts

    return [*BUILT_IN, *mounts.names(home)]


def find(name: str, home: Path) -> Make:
    """What makes instances of that environment. `NotFound` if there is none."""
    from backends import mounts

    wanted = name.partition("@")[0]
    made = BUILT_IN.get(wanted) or mounts.find(wanted, home)
    if made is None:
        raise NotFound(
            f"no such environment; there are {', '.join(names(home))}",
            where=name or "--env",
            mend="trajlog env add mounts another",
        )
    return made


def tasks_of(name: str, home: Path) -> "list[Task]":
    """The tasks that an environment brings along. `UsageError` if it brings none."""
    from backends import mounts, tasks

    wanted = name.partition("@")[0]
    if wanted in BUILT_IN:
        from backends.phone import TASKS

        return tasks.read(TASKS)
    find(wanted, home)
    brought: Callable[[str, Path], list[Task] | None] | None = getattr(mounts, "tasks", None)
    found = brought(wanted, home) if brought else None
    if not found:
        raise UsageError("the environment brings no tasks", where=name, mend="name a file: trajlog task add FILE")
    return found
