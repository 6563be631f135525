"""Python's garbage collector, out of the way of what makes many objects and no cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

YOUNG: Final = 100_000
"""Objects made, and still there, before it looks for cycles among them; Python's own number is 700."""


@contextmanager
def no_collector() -> Iterator[None]:
    """A fold makes no cycles, and holds so much that looking for them takes a fifth of its time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """For an import, which takes much in and soon lets go of it: looking took a tenth of its time. Not for what fetches
    from Kafka: its client leaves cycles with whole buffers in them."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
