"""What a forked process must begin anew: threads stay with the parent, and so must its connections."""

import os
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet


class Forks(Protocol):
    """Something with connections or threads of its own."""

    def forked(self) -> None:
        """Called in a child process: forget what belongs to the parent, without closing it."""
        ...


_all: "WeakSet[Forks]" = WeakSet()
_left: list[object] = []


def begin_anew(what: Forks) -> None:
    """Call `what.forked()` in every child that is forked while `what` lives."""
    _all.add(what)


def leave(what: object) -> None:
    """Keep what belongs to the parent as it is: letting it go would say goodbye on the parent's connection."""
    _left.append(what)


def _forked() -> None:
    for what in list(_all):
        what.forked()


_register: Callable[..., None] = os.register_at_fork
_register(after_in_child=_forked)
