"""Rows in ascending order of hashes, part by part: a hundred million are sorted in the memory of some.

Hashes are spread evenly, so that equal parts of their range hold about as many rows each.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE: Final = 1 << 18
"""Each part looks through all rows: few parts, and some 8 MB for one."""

Keys = Callable[[int, int], "tuple[pa.Array, Sequence[pa.Array]]"]
"""Of the rows from the first to before the last: which are meant, and their keys u64, the hash first."""


def ascending(rows: int, keys: Keys) -> "Iterator[pa.Array]":
    """The numbers of `rows` rows by their keys, equal ones by number, as arrays of u64."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = -(-rows // AT_ONCE)
    for part in range(parts):
        least, most = (pa.scalar(2**64 * end // parts - (end > part), pa.uint64()) for end in (part, part + 1))
        found = []
        for first in range(0, rows, AT_ONCE):
            numbers, columns = keys(first, min(first + AT_ONCE, rows))
            table = pa.table([*columns, numbers], [str(i) for i in range(len(columns) + 1)])
            if parts > 1:
                table = table.filter(pc.and_(pc.greater_equal(columns[0], least), pc.less_equal(columns[0], most)))
            found.append(table)
        together = pa.concat_tables(found).combine_chunks()
        order = pc.sort_indices(together, sort_keys=[(name, "ascending") for name in together.column_names])
        pa.default_memory_pool().release_unused()
        yield together.columns[-1].take(order).combine_chunks()
