"""Points of a trace that were recorded apart, in the order in which they happened."""

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import NamedTuple


class Point(NamedTuple):
    """Something that happens at `at`; `rank` orders what happens at once, then `order`."""

    at: int
    rank: int
    order: int
    happen: Callable[[], None]


def play(points: Iterable[Point]) -> None:
    """Let everything happen, in order."""
    for point in sorted(points, key=itemgetter(0, 1, 2)):
        point.happen()
