"""glibc's malloc, told to give large blocks back to the system.

By itself it raises, each time a large block is freed, the size from which on blocks are mapped apart, up to 32 MB
(mallopt(3)); batches then lie between small objects in its heap and leave holes there. Over five million events
a worker grew by half.
"""

import ctypes
from contextlib import suppress
from typing import Final

APART: Final = 1 << 20
"""Bytes from which on a block is mapped apart."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_ARENAS = 2


def large_blocks_apart() -> None:
    """For this process, from now on. Nothing where the C library is another."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, APART)
        mallopt(_M_ARENA_MAX, _ARENAS)
