"""Points of a trace that were recorded apart, in the order in which they happened."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Any

Point = tuple[int, int, int, Callable[..., None], tuple[Any, ...]]
"""Something that happens at a time, what it is called with last. What happens at once is ordered by the
second number, then by the third."""

_place = itemgetter(0, 1, 2)


def play(points: Iterable[Point]) -> None:
    """Let everything happen, in order."""
    for _, _, _, happen, given in sorted(points, key=_place):
        happen(*given)
