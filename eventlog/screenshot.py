"""The screen that a step was decided on, as a picture with what was done on it drawn in.

The picture is the last one seen before the step's first touch; what was seen before an earlier touch
no longer counts. A step that has only a picture from afterwards shows that, with nothing drawn in.
"""

import warnings
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from core.errors import BadRecord, NotFound
from core.event import StoredEvent
from eventlog import overlay
from eventlog.overlay import Drawn, Mark
from eventlog.screens import Screen, screen_of
from eventlog.timeline import payload_of, step_of

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

Json = dict[str, Any]

INK: Final = (230, 0, 90)
HALO: Final = (255, 255, 255)


class Seen(NamedTuple):
    """A step's screen, the blob of its picture, and the actions taken on it."""

    screen: Screen
    address: str
    actions: list[Json]
    notes: list[str]


class Picture(NamedTuple):
    """A PNG, and what is to be said about it."""

    data: bytes
    notes: list[str]


def seen(events: Sequence[StoredEvent], step: int, where: str) -> Seen:
    """The screen of a step, given the episode's events. `NotFound` where there is none."""
    payloads = {event.version: payload_of(event) for event in events}
    steps = {version: step_of(payload) for version, payload in payloads.items()}
    own = [version for version, number in steps.items() if number == step]
    if not own:
        last = max((number for number in steps.values() if number is not None), default=0)
        raise NotFound(f"there is no step {step}: the last is {last}", where=where)
    shown = [screen for event in events if (screen := screen_of(event, payloads[event.version])) is not None]
    touches = {version: payload["action"] for version, payload in payloads.items() if _is_touch(payload)}
    acting = [version for version in own if version in touches]
    first = acting[0] if acting else _decided(events, own)
    since = max((version for version in touches if version < first), default=0)
    before = [screen for screen in shown if since < screen.version < first]
    for screen in reversed(before):
        if screen.picture is not None:
            following = min((other.version for other in shown if other.version > first), default=max(own) + 1)
            actions = [touches[version] for version in acting if version < following]
            notes = [] if len(actions) == len(acting) else ["the step goes on after another screen, not shown here"]
            return Seen(screen, str(screen.picture["address"]), actions, notes)
    for screen in shown:
        if not before and screen.version in own and screen.version > first and screen.picture is not None:
            notes = ["the only screen of this step is from after it was decided"]
            return Seen(screen, str(screen.picture["address"]), [], notes)
    flags = sorted({flag for screen in before for flag in screen.flags})
    why = f" ({', '.join(flags)})" if flags else ""
    raise NotFound(f"step {step} has no screenshot{why}", where=where)


def draw(data: bytes, found: Seen, where: str) -> Picture:
    """The picture with its marks, as PNG. `BadRecord` where the bytes are no picture."""
    image = _opened(data, where)
    drawn = [_marks(action, found.screen, image.size) for action in found.actions]
    _draw(image, drawn)
    out = BytesIO()
    image.save(out, "PNG")
    return Picture(out.getvalue(), [*found.notes, *(note for one in drawn for note in one.notes)])


def _is_touch(payload: Json) -> bool:
    action = payload.get("action")
    return isinstance(action, dict) and action.get("kind") == "Ui"


def _decided(events: Sequence[StoredEvent], own: list[int]) -> int:
    """Where a step without a touch was decided: at its last model turn or action."""
    types = {event.version: event.type for event in events}
    turns = [version for version in own if types[version] in ("ModelResponded", "ActionSubmitted")]
    return turns[-1] if turns else own[-1] + 1


def _marks(action: Json, on: Screen, size: tuple[int, int]) -> Drawn:
    try:
        return overlay.marks(action, overlay.screen(size, on.viewport))
    except (LookupError, TypeError, ValueError, AttributeError):
        return Drawn([], ["the action has another shape than its kind"])


def _opened(data: bytes, where: str) -> "Image":
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(data)) as image:
                return image.convert("RGB")
    except UnidentifiedImageError:
        raise BadRecord("the blob is no picture that can be drawn on", where=where) from None
    except (
        OSError,
        ValueError,
        SyntaxError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        raise BadRecord(f"the picture cannot be read: {error}", where=where) from None


def _draw(image: "Image", drawn: list[Drawn]) -> None:
    from PIL import ImageDraw

    brush = ImageDraw.Draw(image)
    size = max(min(image.size) / 22, 6)
    for number, one in enumerate(drawn, 1):
        for mark in one.marks:
            for ink, extra in ((HALO, size / 5), (INK, 0.0)):
                _SHAPES[mark.kind](brush, image.size, mark, size, ink, extra)
            if len(drawn) > 1:
                _number(brush, image.size, mark, size, number)


def _at(size: tuple[int, int], point: tuple[float, float]) -> tuple[float, float]:
    return point[0] * (size[0] - 1), point[1] * (size[1] - 1)


def _ring(brush: "ImageDraw", x: float, y: float, radius: float, width: float, ink: tuple[int, int, int]) -> None:
    brush.ellipse((x - radius, y - radius, x + radius, y + radius), outline=ink, width=max(1, round(width)))


def _touch(
    brush: "ImageDraw", on: tuple[int, int], mark: Mark, size: float, ink: tuple[int, int, int], extra: float
) -> None:
    x, y = _at(on, mark.at)
    _ring(brush, x, y, size + extra, size / 4 + 2 * extra, ink)
    if mark.kind == "double_tap":
        _ring(brush, x, y, size * 1.7 + extra, size / 4 + 2 * extra, ink)
    dot = size * (0.7 if mark.kind == "long_press" else 0.2) + extra
    brush.ellipse((x - dot, y - dot, x + dot, y + dot), fill=ink)


def _arrow(
    brush: "ImageDraw", on: tuple[int, int], mark: Mark, size: float, ink: tuple[int, int, int], extra: float
) -> None:
    assert mark.to is not None
    (x, y), (u, v) = _at(on, mark.at), _at(on, mark.to)
    length = max(((u - x) ** 2 + (v - y) ** 2) ** 0.5, 1e-6)
    dx, dy = (u - x) / length, (v - y) / length
    head = min(size * 1.6, length)
    base = u - dx * head, v - dy * head
    brush.line((x, y, *base), fill=ink, width=max(1, round(size / 3 + 2 * extra)))
    tip = u + dx * extra, v + dy * extra
    half = head * 0.5 + extra
    brush.polygon(
        (tip, (base[0] - dy * half, base[1] + dx * half), (base[0] + dy * half, base[1] - dx * half)), fill=ink
    )
    if mark.kind == "move":
        dot = size * 0.4 + extra
        brush.ellipse((x - dot, y - dot, x + dot, y + dot), fill=ink)


_SHAPES: Final[dict[str, Callable[..., None]]] = {
    "tap": _touch,
    "double_tap": _touch,
    "long_press": _touch,
    "move": _arrow,
    "outside": _arrow,
}


def _number(brush: "ImageDraw", on: tuple[int, int], mark: Mark, size: float, number: int) -> None:
    from PIL import ImageFont

    x, y = _at(on, mark.at)
    font = ImageFont.load_default(size * 1.5)
    left = x + size * 1.3 if x < on[0] / 2 else x - size * 2.6
    top = min(max(y - size, 0), on[1] - size * 2)
    brush.text((left, top), str(number), fill=INK, font=font, stroke_width=max(1, round(size / 8)), stroke_fill=HALO)
