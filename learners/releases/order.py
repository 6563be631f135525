"""The order of use: a permutation that follows from the seed and the number of rows alone.

Row i gets the key u64 that stands at 8·i in SHAKE-128(`trajlog/order/1` ‖ 0 ‖ seed i64 ‖ rows u64), big-endian;
rows are used by ascending key, equal ones by index.
"""

from hashlib import shake_128
from typing import Any, Final

LABEL: Final = b"trajlog/order/1\0"


def order(seed: int, rows: int) -> Any:
    """The rows' indexes in their order of use, as an Arrow array of u64: 16 bytes a row while it is made."""
    import pyarrow as pa
    import pyarrow.compute as pc

    stream = shake_128(LABEL + seed.to_bytes(8, "big", signed=True) + rows.to_bytes(8, "big")).digest(8 * rows)
    keys = pa.Array.from_buffers(pa.uint64(), rows, [None, pa.py_buffer(_swapped(stream))])
    table = pa.table({"key": keys, "row": pa.array(range(rows), pa.uint64())})
    return pc.sort_indices(table, sort_keys=[("key", "ascending"), ("row", "ascending")])


def _swapped(data: bytes) -> bytes:
    from array import array
    from sys import byteorder

    words = array("Q", data)
    if byteorder == "little":
        words.byteswap()
    return words.tobytes()
