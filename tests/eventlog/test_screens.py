"""Which screen an event is about."""

from core.vocabulary import Payload
from core.vocabulary.base import BlobRef
from core.vocabulary.contract import Observation, Viewport
from core.vocabulary.episode import EpisodeStarted, FeedbackRecorded, MessageRecorded, ModelResponded, NoteAdded
from eventlog.picture import Size
from eventlog.screens import Screen, screen_at, screen_of
from tests.eventlog import samples, screenshots
from tests.eventlog.samples import raw, stored

SHOT = BlobRef(address=f"sha256:{'1' * 64}", size=3, media_type="image/png")
TREE = BlobRef(address=f"sha256:{'2' * 64}", size=3, media_type="application/xml")


def shown(payload: Payload) -> Screen | None:
    (event,) = stored(("episode/aa", [payload]))
    return screen_of(event)


def test_an_observation_shows_its_screenshot_and_tree() -> None:
    screen = shown(screenshots.seen(1, SHOT, TREE, flags=["stale"]))
    assert screen is not None
    assert screen.picture is not None and screen.picture["address"] == SHOT.address
    assert [text["address"] for text in screen.texts] == [TREE.address]
    assert (screen.flags, screen.app, screen.size) == (["stale"], "clock", Size(108, 228))


def test_a_viewport_alone_is_a_screen_without_a_picture() -> None:
    screen = shown(FeedbackRecorded(step=1, feedback=Observation(viewport=Viewport(10, 20))))
    assert screen is not None
    assert screen.picture is None
    assert screen.size == Size(10, 20)


def test_a_picture_in_a_message_or_a_result_is_a_screen() -> None:
    part = {"type": "image_url", "image_url": {"address": SHOT.address, "size": 3, "media_type": "image/png"}}
    for payload in (MessageRecorded(role="user", content=raw([part])), samples.ok(1, [part])):
        screen = shown(payload)
        assert screen is not None and screen.picture is not None
        assert screen.size is None


def test_what_shows_nothing_is_no_screen() -> None:
    for payload in (
        samples.ok(1, "viewport"),
        FeedbackRecorded(step=1, feedback=Observation(text="a list")),
        ModelResponded(step=1, content=TREE, token_ids=TREE),
        EpisodeStarted(origin=samples.origin()),
        MessageRecorded(role="user", content=raw('{"media_type": 3}')),
    ):
        assert shown(payload) is None


def test_the_screen_at_an_event_is_its_own_or_the_latest_before() -> None:
    payloads = [
        NoteAdded(text="x"),
        screenshots.seen(1, SHOT),
        samples.turn(1),
        screenshots.seen(1, TREE),
        samples.ok(1),
    ]
    events = stored(("episode/aa", payloads))
    found = [screen_at(events, index) for index in range(len(events))]
    assert [screen and screen.version for screen in found] == [None, 2, 2, 4, 4]
    assert screen_at([], 0) is None


def test_only_touches_are_drawn_and_odd_ones_do_not_raise() -> None:
    screen = shown(screenshots.seen(1, SHOT))
    assert screen is not None
    tap = {"kind": "Ui", "op": "tap", "target": {"kind": "point", "x": 54, "y": 57}}
    (mark,) = screen.drawn(tap, Size(108, 228)).marks
    assert mark.at == (0.5, 0.25)
    for action in (None, 3, {"kind": "ToolCall"}, {"kind": "Ui", "op": "wait"}):
        assert screen.drawn(action, Size(1, 1)) == ([], [])
    odd = screen.drawn({"kind": "Ui", "op": "tap", "target": {"kind": "point", "x": []}}, Size(1, 1))
    assert (odd.marks, len(odd.notes)) == ([], 1)
