"""Where on a screen an action took place: marks in fractions of the picture, to be drawn by whoever
shows it. Pure geometry.

A point is given in pixels of the screen, or in a grid such as 0-1000, under the screen's rotation of
that moment; the picture may have another size, and lie as the device lies where the screen is turned.
"""

import re
from typing import Any, Final, Literal, NamedTuple

import msgspec

Json = dict[str, Any]
Point = tuple[float, float]
"""From the left and from the top, each 0 to 1 on the screen."""

Kind = Literal["tap", "double_tap", "long_press", "move", "outside"]

LENGTH: Final = 0.3
"""How far an arrow goes that has a direction and no end."""

_GRID = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:-|to|\.\.)\s*(-?\d+(?:\.\d+)?)")
_WAYS: Final[dict[str, Point]] = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_TOUCHES: Final = frozenset({"tap", "double_tap", "long_press"})


class Mark(msgspec.Struct, frozen=True):
    """Something to draw: a touch at `at`, a `move` from `at` to `to`, or, for what lies `outside` the
    screen, an arrow at the edge that points there. `text` says what was recorded."""

    kind: Kind
    at: Point
    to: Point | None = None
    text: str = ""


class Drawn(NamedTuple):
    """An action's marks, and what of it could not be drawn, and why."""

    marks: list[Mark]
    notes: list[str]


class Screen(NamedTuple):
    """A picture's size in pixels, and the screen that coordinates refer to: its size, and its rotation
    in degrees clockwise. `turned`: how far the picture itself is turned."""

    width: int
    height: int
    rotation: int
    turned: int


def screen(picture: tuple[int, int], viewport: Json | None) -> Screen:
    """The screen behind a picture. Without a viewport it is the picture."""
    width, height = picture
    if not viewport or viewport.get("width", 0) <= 0 or viewport.get("height", 0) <= 0:
        return Screen(width, height, 0, 0)
    across, down, rotation = viewport["width"], viewport["height"], viewport.get("rotation", 0)
    upright = (across >= down) == (width >= height) or across == down or width == height
    return Screen(across, down, rotation, rotation if upright or rotation % 180 == 0 else 0)


def marks(action: Json, on: Screen) -> Drawn:
    """What to draw for an action of kind Ui; nothing, with a note, for one that has no place."""
    op = str(action.get("op"))
    notes: list[str] = []
    at = _place(action.get("target"), on, notes)
    to = _place(action.get("to"), on, notes)
    way = _WAYS.get(str(action.get("direction")))
    text = _said(action, op)
    if way is not None and to is None and op not in _TOUCHES:
        at = at or (0.5 - way[0] * LENGTH / 2, 0.5 - way[1] * LENGTH / 2)
        to = at[0] + way[0] * LENGTH, at[1] + way[1] * LENGTH
        to = min(max(to[0], 0.0), 1.0), min(max(to[1], 0.0), 1.0)
    if at is None and to is None:
        return Drawn([], notes or [f"{text} has no place on the screen"])
    found: list[Mark] = []
    for place, what in ((at, action.get("target")), (to, action.get("to"))):
        if place is not None and not _inside(place):
            edge, pointing = _edge(place)
            found.append(Mark("outside", edge, pointing, text))
            notes.append(f"{op} {_point(what)} lies outside the screen of {on.width}×{on.height}")
    if at is not None and to is not None:
        if not found:
            found.append(Mark("move", at, to, text))
        elif _inside(at) or _inside(to):
            found.append(Mark("move", _clamped(at), _clamped(to), text))
    elif at is not None and not found:
        kind: Kind = op if op in _TOUCHES else "tap"  # type: ignore[assignment]
        found.append(Mark(kind, at, None, text))
    return Drawn(found, notes)


def _place(target: Json | None, on: Screen, notes: list[str]) -> Point | None:
    """A target as fractions of the picture."""
    if not target:
        return None
    if target.get("kind") != "point":
        notes.append(f"element {target.get('ref')} was named without coordinates")
        return None
    space = str(target.get("space", "pixels"))
    rotation = target.get("rotation", 0)
    x, y = float(target["x"]), float(target["y"])
    grid = _GRID.fullmatch(space.strip())
    if grid is not None and float(grid[1]) != float(grid[2]):
        first, size = float(grid[1]), float(grid[2]) - float(grid[1])
        u, v = (x - first) / size, (y - first) / size
    elif space in ("pixels", "px"):
        width, height = (on.height, on.width) if (rotation - on.rotation) % 180 else (on.width, on.height)
        u, v = x / width, y / height
    else:
        notes.append(f"coordinates in {space!r}, which is neither pixels nor a grid such as 0-1000")
        return None
    return _turned((u, v), on.turned - rotation)


def _turned(point: Point, degrees: int) -> Point:
    """The point of a picture once that is turned clockwise."""
    u, v = point
    return {0: (u, v), 90: (1 - v, u), 180: (1 - u, 1 - v), 270: (v, 1 - u)}[degrees % 360]


def _inside(point: Point) -> bool:
    return 0 <= point[0] <= 1 and 0 <= point[1] <= 1


def _clamped(point: Point) -> Point:
    return min(max(point[0], 0.0), 1.0), min(max(point[1], 0.0), 1.0)


def _edge(point: Point) -> tuple[Point, Point]:
    """An arrow inside the screen that ends at its edge, nearest to a point outside."""
    tip = _clamped(point)
    dx, dy = point[0] - tip[0], point[1] - tip[1]
    longest = max(abs(dx), abs(dy))
    return (tip[0] - dx / longest * 0.12, tip[1] - dy / longest * 0.12), tip


def _said(action: Json, op: str) -> str:
    parts = [op.replace("_", " ")]
    parts += [_point(action[name]) for name in ("target", "to") if action.get(name)]
    parts += [str(action[name]) for name in ("direction", "key", "app") if action.get(name)]
    return " ".join(parts)


def _point(target: Any) -> str:
    if not isinstance(target, dict) or target.get("kind") != "point":
        return f"element {target.get('ref')}" if isinstance(target, dict) else ""
    space = target.get("space", "pixels")
    return f"({target['x']:g}, {target['y']:g})" + ("" if space == "pixels" else f" in {space}")
