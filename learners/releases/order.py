"""The order of use: a permutation that follows from the seed and the number of rows alone.

Row i gets the key u64 that stands at 8·i in SHAKE-128(`trajlog/order/1` ‖ 0 ‖ seed i64 ‖ rows u64), big-endian;
rows are used by ascending key, equal ones by index.
"""

from array import array
from collections.abc import Iterator
from hashlib import shake_128
from sys import byteorder
from typing import TYPE_CHECKING, Final

from learners.ascending import ascending

if TYPE_CHECKING:
    import pyarrow as pa

LABEL: Final = b"trajlog/order/1\0"


def order(seed: int, rows: int) -> "Iterator[pa.Array]":
    """The rows' indexes in their order of use, as Arrow arrays of u64: 8 bytes a row while they are made."""
    import pyarrow as pa

    stream = shake_128(LABEL + seed.to_bytes(8, "big", signed=True) + rows.to_bytes(8, "big")).digest(8 * rows)

    def keys(first: int, end: int) -> "tuple[pa.Array, list[pa.Array]]":
        words = array("Q", stream[8 * first : 8 * end])
        if byteorder == "little":
            words.byteswap()
        key = pa.Array.from_buffers(pa.uint64(), len(words), [None, pa.py_buffer(words)])
        return pa.array(range(first, end), pa.uint64()), [key]

    return ascending(rows, keys)
