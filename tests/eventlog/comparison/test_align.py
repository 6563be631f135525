"""Longest common subsequences, against the textbook's table."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from eventlog.comparison.align import common

words = st.lists(st.sampled_from("abcd"), max_size=24)


def longest(a: Sequence[str], b: Sequence[str]) -> int:
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if x == y else max(lengths[i][j + 1], lengths[i + 1][j])
    return lengths[-1][-1]


@given(words, words)
def test_what_two_sequences_share_is_as_long_as_it_can_be_and_in_order(a: list[str], b: list[str]) -> None:
    pairs = common(a, b)
    assert len(pairs) == longest(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in pairwise(pairs))


def test_sequences_of_five_thousand_are_aligned() -> None:
    a = [i % 97 for i in range(5_000)]
    b = [i % 89 for i in range(5_000)]
    pairs = common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert len(common(a, a)) == 5_000
    assert common(a, []) == []
