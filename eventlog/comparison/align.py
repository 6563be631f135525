"""The longest common subsequence of two sequences: what they share, in order.

Bit-parallel (Hyyrö 2004, "Bit-parallel LCS-length computation revisited"): a row of the table is one
big integer, so that two sequences of a thousand cost a thousand additions.
"""

from collections.abc import Hashable, Sequence


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Index pairs (into a, into b) of a longest common subsequence, ascending in both."""
    start = 0
    while start < len(a) and start < len(b) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = _middle(a[start : len(a) - end], b[start : len(b) - end])
    head = [(i, i) for i in range(start)]
    tail = [(len(a) - i, len(b) - i) for i in range(end, 0, -1)]
    return head + [(i + start, j + start) for i, j in middle] + tail


def _middle(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    where: dict[Hashable, int] = {}
    for i, item in enumerate(a):
        where[item] = where.get(item, 0) | 1 << i
    ones = (1 << len(a)) - 1
    row = ones
    rows = [row]
    for item in b:
        hits = row & where.get(item, 0)
        row = ((row + hits) | (row - hits)) & ones
        rows.append(row)
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        bit = 1 << i - 1
        if rows[j] & bit:  # a[i-1] adds nothing here
            i -= 1
        elif not rows[j - 1] & bit:  # nor does b[j-1]
            j -= 1
        else:
            pairs.append((i - 1, j - 1))
            i, j = i - 1, j - 1
    return pairs[::-1]
