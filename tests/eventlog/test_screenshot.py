"""The screen of a step, and what is drawn on it."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pytest
from PIL import Image, ImageChops

from core.errors import BadRecord, NotFound
from core.vocabulary import BlobRef, Payload
from core.vocabulary.contract import ElementRef, Observation, Point, Ui, Viewport
from core.vocabulary.episode import ActionSubmitted, FeedbackRecorded
from eventlog.screenshot import Seen, draw, seen
from tests.eventlog.samples import call, ok, stored, turn

SIZE = (200, 400)


def png(size: tuple[int, int] = SIZE, mode: str = "RGB", format: str = "PNG") -> bytes:
    out = BytesIO()
    Image.new(mode, size).save(out, format)
    return out.getvalue()


def look(step: int, name: str, *, media_type: str = "image/png", flags: Sequence[str] = ()) -> FeedbackRecorded:
    blobs = [BlobRef(name, 10, media_type)] if name else []
    tree = BlobRef("tree", 10, "application/xml")
    return FeedbackRecorded(step, Observation(blobs=[tree, *blobs], flags=list(flags), viewport=Viewport(*SIZE)))


def tap(step: int, x: float = 100, y: float = 200, **more: Any) -> ActionSubmitted:
    return ActionSubmitted(step, Ui("tap", target=Point(x, y), **more))


def found(step: int, *payloads: Payload) -> Seen:
    return seen(stored(("episode/a", payloads)), step, "a")


def at(shown: Seen) -> tuple[str, int]:
    return shown.address, shown.screen.version


def test_where_screens_come_before_their_action_it_is_the_steps_own() -> None:
    recorded = [look(1, "one"), turn(1), tap(1), look(2, "two"), turn(2), tap(2, x=0)]
    assert at(found(1, *recorded)) == ("one", 1)
    two = found(2, *recorded)
    assert (at(two), two.screen.viewport) == (("two", 4), {"width": 200, "height": 400})
    assert [action["target"]["x"] for action in two.actions] == [0]


def test_where_screens_answer_actions_it_is_what_the_last_one_left() -> None:
    recorded = [look(1, "start"), turn(1), tap(1), look(1, "after one"), turn(2), tap(2), look(2, "after two")]
    assert found(1, *recorded).address == "start"
    assert found(2, *recorded).address == "after one"


def test_a_screen_from_before_an_earlier_touch_no_longer_counts() -> None:
    recorded = [look(1, "one"), tap(1), look(2, "", flags=["screenshot_absent"]), tap(2)]
    with pytest.raises(NotFound, match=r"a: step 2 has no screenshot \(screenshot_absent\)"):
        found(2, *recorded)
    with pytest.raises(NotFound, match=r"a: step 2 has no screenshot$"):
        found(2, look(1, "one"), tap(1), tap(2))


def test_tool_calls_in_between_change_no_screen() -> None:
    assert found(2, look(1, "one"), call(1, "recall"), ok(1), turn(2), tap(2)).address == "one"


def test_touches_of_one_step_on_one_screen_are_all_drawn_others_are_mentioned() -> None:
    both = found(1, look(1, "one"), tap(1), tap(1))
    assert (len(both.actions), both.notes) == (2, [])
    first = found(1, look(1, "one"), tap(1), look(1, "two"), tap(1))
    assert (first.address, len(first.actions)) == ("one", 1)
    assert first.notes == ["the step goes on after another screen, not shown here"]


def test_a_step_without_a_touch_shows_what_was_seen() -> None:
    last = found(2, look(1, "one"), tap(1), look(1, "after"), turn(2), call(2, "finish"))
    assert (last.address, last.actions) == ("after", [])
    assert at(found(1, look(1, "one"))) == ("one", 1)


def test_a_screen_from_afterwards_is_shown_bare_and_said() -> None:
    shot = found(1, turn(1), ActionSubmitted(1, Ui("screenshot")), look(1, "one"))
    assert (shot.address, shot.actions) == ("one", [])
    assert shot.notes == ["the only screen of this step is from after it was decided"]


@pytest.mark.parametrize(
    "payloads", [[], [turn(1)], [turn(1), tap(1)], [look(1, "x", media_type="application/pdf"), tap(1)]]
)
def test_no_screen_is_said(payloads: list[Payload]) -> None:
    with pytest.raises(NotFound, match=r"a: (step 1 has no screenshot|there is no step 1: the last is 0)"):
        found(1, *payloads)


def test_a_step_that_is_not_there_is_said() -> None:
    with pytest.raises(NotFound, match="a: there is no step 9: the last is 2"):
        found(9, look(1, "one"), tap(2))


def drawn(*actions: Ui, data: bytes | None = None) -> tuple[Image.Image, list[str]]:
    payloads: list[Payload] = [look(1, "one"), *(ActionSubmitted(1, action) for action in actions)]
    picture = draw(data or png(), found(1, *payloads), "a@1")
    return Image.open(BytesIO(picture.data)), picture.notes


def box(image: Image.Image) -> tuple[int, int, int, int]:
    changed = ImageChops.difference(image, Image.new("RGB", image.size)).getbbox()
    assert changed is not None
    return changed


def test_a_tap_is_drawn_around_its_point() -> None:
    image, notes = drawn(Ui("tap", target=Point(60, 100)))
    assert (image.format, image.size, notes) == ("PNG", SIZE, [])
    left, top, right, bottom = box(image)
    assert abs((left + right) / 2 - 60) <= 1 and abs((top + bottom) / 2 - 100) <= 1


def test_a_tap_at_zero_is_drawn_and_a_swipe_goes_all_the_way() -> None:
    assert box(drawn(Ui("tap", target=Point(0, 0)))[0])[:2] == (0, 0)
    left, top, right, bottom = box(drawn(Ui("swipe", target=Point(100, 380), to=Point(100, 20)))[0])
    assert abs(top - 18) < 6 and abs(bottom - 388) < 8
    assert right - left < 60


def test_a_tap_outside_is_drawn_at_the_edge_and_said() -> None:
    image, notes = drawn(Ui("tap", target=Point(900, 200)))
    assert box(image)[2] == SIZE[0]
    assert notes == ["tap (900, 200) lies outside the screen of 200×400"]


def test_what_has_no_place_leaves_the_picture_as_it_was() -> None:
    image, notes = drawn(Ui("tap", target=ElementRef("e1")), Ui("text", text="hi"))
    assert ImageChops.difference(image, Image.new("RGB", SIZE)).getbbox() is None
    assert notes == ["element e1 was named without coordinates", "text has no place on the screen"]


@pytest.mark.parametrize("kind", ["tap", "double_tap", "long_press", "drag", "scroll"])
def test_every_kind_of_touch_is_drawn_also_several_on_one_screen(kind: Any) -> None:
    action = Ui(kind, target=Point(100, 100), to=Point(50, 50) if kind == "drag" else None, direction="up")
    assert box(drawn(action, action)[0])


@pytest.mark.parametrize(
    "data",
    [
        png(mode="RGBA"),
        png(mode="P", format="GIF"),
        png(format="JPEG"),
        png(format="WEBP"),
        png((1, 1)),
        png(mode="L"),
    ],
)
def test_pictures_of_every_kind_are_drawn_on(data: bytes) -> None:
    assert drawn(Ui("tap", target=Point(3, 3)), data=data)[0].format == "PNG"


@pytest.mark.parametrize(
    "data", [b"no picture", b"<svg/>", png()[:60], b"\x89PNG\r\n\x1a\n", b"", png()[:40] + b"\0" * 60]
)
def test_what_is_no_picture_is_said(data: bytes) -> None:
    with pytest.raises(BadRecord, match=r"a@1: the (blob is no picture|picture cannot be read)"):
        drawn(Ui("tap", target=Point(3, 3)), data=data or b" ")


def test_a_picture_that_unpacks_to_gigabytes_is_refused() -> None:
    head = bytearray(png())
    head[16:24] = (60_000).to_bytes(4) + (60_000).to_bytes(4)
    from zlib import crc32

    head[29:33] = crc32(bytes(head[12:29])).to_bytes(4)
    with pytest.raises(BadRecord, match="cannot be read"):
        drawn(Ui("tap", target=Point(3, 3)), data=bytes(head))


def test_an_action_of_another_shape_is_said() -> None:
    action = {"kind": "Ui", "op": "tap", "target": {"kind": "point", "x": "left"}}
    shown = found(1, look(1, "one"), tap(1))
    assert draw(png(), shown._replace(actions=[action]), "a").notes == ["the action has another shape than its kind"]
