"""Where on a picture an action took place."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.overlay import LENGTH, Mark, Screen, marks, screen

PHONE = {"width": 1080, "height": 2400}


def point(x: float, y: float, **more: Any) -> dict[str, Any]:
    return {"kind": "point", "x": x, "y": y, **more}


def on(picture: tuple[int, int] = (1080, 2400), viewport: dict[str, Any] | None = None) -> Screen:
    return screen(picture, viewport)


def at(target: dict[str, Any], on: Screen) -> tuple[float, float]:
    (mark,) = marks({"op": "tap", "target": target}, on).marks
    return round(mark.at[0], 4), round(mark.at[1], 4)


@pytest.mark.parametrize(
    ("target", "picture", "viewport", "expected"),
    [
        (point(540, 1200), (1080, 2400), None, (0.5, 0.5)),
        (point(0, 0), (1080, 2400), PHONE, (0, 0)),
        (point(0, 1200), (540, 1200), PHONE, (0, 0.5)),
        (point(540, 600), (540, 1200), PHONE, (0.5, 0.25)),
        (point(250, 750, space="0-1000"), (1080, 2400), PHONE, (0.25, 0.75)),
        (point(0.25, 0.75, space="0-1"), (1080, 2400), None, (0.25, 0.75)),
        (point(1080, 2400), (1080, 2400), PHONE, (1, 1)),
    ],
)
def test_a_point_is_a_fraction_of_the_picture(
    target: dict[str, Any], picture: tuple[int, int], viewport: dict[str, Any] | None, expected: tuple[float, float]
) -> None:
    assert at(target, on(picture, viewport)) == expected


WIDE = {"width": 2400, "height": 1080, "rotation": 90}
"""A phone turned by 90° clockwise: what was its left edge is the upper one."""


@pytest.mark.parametrize(
    ("target", "picture", "viewport", "expected"),
    [
        (point(600, 270, rotation=90), (2400, 1080), WIDE, (0.25, 0.25)),
        (point(270, 600), (2400, 1080), WIDE, (0.75, 0.25)),
        (point(600, 270, rotation=90), (1080, 2400), WIDE, (0.25, 0.75)),
        (point(270, 600), (1080, 2400), WIDE, (0.25, 0.25)),
        (point(600, 270, rotation=270), (1080, 2400), {**WIDE, "rotation": 270}, (0.75, 0.25)),
        (point(270, 600, rotation=180), (1080, 2400), {**PHONE, "rotation": 180}, (0.25, 0.25)),
        (point(270, 600), (1080, 2400), {**PHONE, "rotation": 180}, (0.75, 0.75)),
        (point(250, 250, space="0-1000", rotation=90), (1080, 2400), WIDE, (0.25, 0.75)),
    ],
)
def test_a_point_is_turned_as_the_picture_is(
    target: dict[str, Any], picture: tuple[int, int], viewport: dict[str, Any], expected: tuple[float, float]
) -> None:
    assert at(target, on(picture, viewport)) == expected


rotations = st.sampled_from([0, 90, 180, 270])
fractions = st.floats(0, 1)


@given(fractions, fractions, rotations, rotations, rotations, st.booleans())
def test_points_on_the_screen_stay_on_it_however_it_is_turned(
    u: float, v: float, point_turn: int, screen_turn: int, picture_turn: int, grid: bool
) -> None:
    def size(turn: int) -> tuple[int, int]:
        return (1080, 2400) if turn % 180 == 0 else (2400, 1080)

    width, height = size(screen_turn)
    x, y = (u * 1000, v * 1000) if grid else (u * size(point_turn)[0], v * size(point_turn)[1])
    target = point(x, y, rotation=point_turn, space="0-1000" if grid else "pixels")
    found = marks(
        {"op": "tap", "target": target},
        on(size(picture_turn), {"width": width, "height": height, "rotation": screen_turn}),
    )
    assert [mark.kind for mark in found.marks] == ["tap"]


@pytest.mark.parametrize("op", ["tap", "double_tap", "long_press"])
def test_touches_keep_their_kind(op: str) -> None:
    (mark,) = marks({"op": op, "target": point(0, 5)}, on()).marks
    assert (mark.kind, mark.text) == (op, f"{op.replace('_', ' ')} (0, 5)")


def test_a_swipe_goes_from_one_point_to_the_other() -> None:
    found = marks({"op": "swipe", "target": point(540, 2400), "to": point(540, 0)}, on())
    assert found.marks == [Mark("move", (0.5, 1), (0.5, 0), "swipe (540, 2400) (540, 0)")]
    assert found.notes == []


@pytest.mark.parametrize(
    ("direction", "start", "end"),
    [
        ("up", (0.5, 0.5 + LENGTH / 2), (0.5, 0.5 - LENGTH / 2)),
        ("right", (0.5 - LENGTH / 2, 0.5), (0.5 + LENGTH / 2, 0.5)),
    ],
)
def test_a_scroll_with_only_a_direction_goes_across_the_middle(
    direction: str, start: tuple[float, float], end: tuple[float, float]
) -> None:
    (mark,) = marks({"op": "scroll", "direction": direction}, on()).marks
    assert (mark.kind, mark.text) == ("move", f"scroll {direction}")
    assert mark.to is not None
    assert [*mark.at, *mark.to] == pytest.approx([*start, *end])
    (mark,) = marks({"op": "scroll", "direction": direction, "target": point(0, 0)}, on()).marks
    assert mark.at == (0, 0)


@pytest.mark.parametrize(
    ("target", "tip"),
    [
        (point(2000, 1200), (1, 0.5)),
        (point(-5, 1200), (0, 0.5)),
        (point(540, -1), (0.5, 0)),
        (point(1e300, 1e300), (1, 1)),
    ],
)
def test_a_tap_outside_the_screen_is_an_arrow_at_its_edge(target: dict[str, Any], tip: tuple[float, float]) -> None:
    found = marks({"op": "tap", "target": target}, on())
    (mark,) = found.marks
    assert (mark.kind, mark.to) == ("outside", tip)
    assert all(0 <= number <= 1 for number in mark.at)
    assert found.notes == [f"tap ({target['x']:g}, {target['y']:g}) lies outside the screen of 1080×2400"]


def test_a_swipe_out_of_the_screen_is_drawn_as_far_as_it_goes() -> None:
    found = marks({"op": "swipe", "target": point(540, 1200), "to": point(540, -600)}, on())
    assert [(mark.kind, mark.to) for mark in found.marks] == [("outside", (0.5, 0)), ("move", (0.5, 0))]
    assert len(found.notes) == 1


@pytest.mark.parametrize(
    ("action", "note"),
    [
        ({"op": "key", "key": "back"}, "key back has no place on the screen"),
        ({"op": "tap"}, "tap has no place on the screen"),
        ({"op": "tap", "target": {"kind": "element", "ref": "e12"}}, "element e12 was named without coordinates"),
        (
            {"op": "tap", "target": point(1, 1, space="millimetres")},
            "coordinates in 'millimetres', which is neither pixels nor a grid such as 0-1000",
        ),
        (
            {"op": "tap", "target": point(1, 1, space="5-5")},
            "coordinates in '5-5', which is neither pixels nor a grid such as 0-1000",
        ),
    ],
)
def test_what_has_no_place_is_said(action: dict[str, Any], note: str) -> None:
    assert marks(action, on()) == ([], [note])


@pytest.mark.parametrize("viewport", [{"width": 0, "height": 0}, {"width": -1, "height": 5}, {}])
def test_a_viewport_that_is_none_counts_as_the_picture(viewport: dict[str, Any]) -> None:
    assert at(point(540, 1200), on(viewport=viewport)) == (0.5, 0.5)
