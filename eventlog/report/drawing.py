"""An action's marks as shapes on its screenshot, in the picture's own pixels.

The shapes are numbers and fixed words: nothing of an episode's texts is in them. Pure.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from eventlog.overlay import Mark, Point
from eventlog.picture import Size

RING: Final = 0.028
"""Radius of a touch's ring, in fractions of the picture's longer side."""

Look = Literal["ring", "dot", "way", "beyond", "head"]
"""ring, dot: around a touch, and the touch · way: the line of a move · beyond: that to a place outside ·
head: the head of either."""


class Shape(msgspec.Struct, frozen=True):
    """A circle (`numbers`: cx, cy, r), a line (x1, y1, x2, y2) or a polygon (x, y, x, y, …)."""

    kind: Literal["circle", "line", "polygon"]
    look: Look
    numbers: tuple[float, ...]

    @property
    def points(self) -> str:
        """A polygon's corners as SVG has them."""
        pairs = zip(self.numbers[::2], self.numbers[1::2], strict=True)
        return " ".join(f"{x},{y}" for x, y in pairs)


def shapes(marks: Iterable[Mark], size: Size) -> Iterator[Shape]:
    """What to draw over a picture of that size."""
    radius = round(RING * max(size), 1)
    for mark in marks:
        x, y = _pixels(mark.at, size)
        if mark.to is not None:
            yield from _arrow((x, y), _pixels(mark.to, size), radius, "way" if mark.kind == "move" else "beyond")
        if mark.kind != "outside":
            yield Shape("circle", "ring", (x, y, radius))
            if mark.kind in ("double_tap", "long_press"):
                yield Shape("circle", "ring", (x, y, round(radius * 1.6, 1)))
            yield Shape("circle", "dot", (x, y, round(radius * (0.6 if mark.kind == "long_press" else 0.25), 1)))


def _arrow(start: Point, end: Point, radius: float, look: Look) -> Iterator[Shape]:
    (x1, y1), (x2, y2) = start, end
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    yield Shape("line", look, (x1, y1, x2, y2))
    if length:
        x, y = (x2 - x1) / length * radius, (y2 - y1) / length * radius
        corners = (x2, y2, x2 - x - y * 0.6, y2 - y + x * 0.6, x2 - x + y * 0.6, y2 - y - x * 0.6)
        yield Shape("polygon", "head", tuple(round(number, 2) for number in corners))


def _pixels(at: Point, size: Size) -> Point:
    return round(at[0] * size.width, 2), round(at[1] * size.height, 2)
