"""AndroidControl episodes, one to a line: `{episode_id, goal, is_successful, steps}`.

A step is a screen and the action taken on it: the screen is recorded before the action, and nothing
answers the action, since no results were recorded. Screenshots are taken along where their files lie
beside the one imported. `is_successful` is the data set's word, not a verification.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

from msgspec import Raw
from msgspec.json import encode

from core.vocabulary.contract import Action, Finish, Finished, Observation, Point, ToolCall, Ui, UiOp, Viewport
from core.vocabulary.episode import ActionSubmitted, EpisodeEnded, EpisodeStarted, FeedbackRecorded, ModelResponded
from eventlog.interchange import Confidence, Context, EpisodeDraft, Importer, Record
from eventlog.interchange.android_control.screens import Screens, screens_of
from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.extras import extended, raw
from eventlog.interchange.mapping.messages import Fields

ABSENT = "screenshot_absent"
"""The flag of a screen whose picture is not here."""

_DAY = 86_400
_NAME = int | str
_PAIR = tuple[float, float]

Direction = Literal["up", "down", "left", "right"]


class AndroidControl(Importer):
    """The JSON lines that mobile agents are evaluated on."""

    name: ClassVar[str] = "android-control"
    mapping: ClassVar[int] = 1

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        if first is None or not {"goal", "steps"} <= first.keys():
            return Confidence.NO
        match first["steps"]:
            case [{"action_content": _}, *_]:
                return Confidence.CERTAIN
            case [] if {"episode_id", "is_successful"} <= first.keys():
                return Confidence.LIKELY
        return Confidence.NO

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        episode = Fields(record.data, record.where)
        for name in ("goal", "steps"):
            if name not in episode:
                raise episode.fault(f"{name} is missing: this is no AndroidControl episode")
        yield _Episode(episode, context, screens_of(context.folder)).draft


class _Episode:
    """One episode, being turned into a draft."""

    def __init__(self, episode: Fields, context: Context, screens: Screens) -> None:
        self.keep = context.keep
        self.screens = screens
        name = episode.take("episode_id", _NAME)
        task = None if name is None else f"android-control/{name}"
        goal = episode.take("goal", str)
        if goal is None:
            raise episode.fault("goal is null")
        self.draft = EpisodeDraft(EpisodeStarted(task=task, goal=goal, environment="android-control"))
        self.viewport = _viewport(episode)
        number = 0
        for number, step in enumerate(episode.each("steps"), 1):
            self._step(number, step)
        if not number:
            raise episode.fault("steps is empty: nothing was done")
        success = episode.raw("is_successful")
        if success is not None:
            self.draft.unmapped["is_successful: kept in extra, since nobody verified it"] += 1
        self.draft.left(episode.unmapped())
        extra = extended(episode.rest(), is_successful=success)
        self.draft.add(EpisodeEnded(Finished(), extra=extra))

    def _step(self, number: int, step: Fields) -> None:
        self._screen(number, step)
        instruction = step.take("step_instruction", str)
        content = Fields(step.raw("action_content") or Raw(b"null"), step.where, f"{step.path}.action_content")
        action = self._action(content)
        rest = None
        if not isinstance(action, ToolCall):
            self.draft.left(content.unmapped())
            rest = raw(content.rest())
        self.draft.left(step.unmapped())
        turn = ModelResponded(number, content=instruction, extra=extended(step.rest(), action_content=rest))
        self.draft.add(turn, actor="planner")
        self.draft.add(ActionSubmitted(number, action), actor="planner")

    def _screen(self, number: int, step: Fields) -> None:
        recorded = step.take("screenshot", str)
        viewport = _viewport(step) or self.viewport
        if recorded is None and viewport is None:
            return
        image = recorded and self.screens.read(recorded, lambda what: step.fault(f"screenshot: {what}"))
        if image:
            size = images.size_of(image)
            viewport = viewport or (Viewport(*size) if size else None)
        elif recorded:
            self.draft.unmapped["steps[].screenshot: no such file beside the import, path kept in extra"] += 1
        seen = Observation(
            blobs=[self.keep(image)] if image else [], flags=[] if image else [ABSENT], viewport=viewport
        )
        path = None if recorded is None or images.is_data_url(recorded) else Raw(encode(recorded))
        self.draft.add(FeedbackRecorded(number, seen, extra=extended(screenshot=path)), actor="executor")

    def _action(self, content: Fields) -> Action:
        name = content.take("action", str) or content.take("action_type", str)
        if not name:
            raise content.fault("action is missing")
        made = _ACTIONS.get(name)
        if made is not None:
            return made(content)
        self.draft.unmapped[f"action {name[:40]}: kept as a tool call"] += 1
        return ToolCall(name, Raw(content.verbatim or b"null"))


def _viewport(fields: Fields) -> Viewport | None:
    width, height = fields.peek("width", int), fields.peek("height", int)
    if not width or not height:
        return None
    return Viewport(fields.take("width", int), fields.take("height", int))


def _needed(fields: Fields, kind: Any, *names: str) -> Any:
    for name in names:
        value = fields.take(name, kind)
        if value is not None:
            return value
    raise fields.fault(f"{names[0]} is missing")


def _point(fields: Fields, name: str = "coordinate") -> Point | None:
    at = fields.take(name, _PAIR)
    if at is None and name == "coordinate" and fields.peek("x", float) is not None:
        at = fields.take("x", float), _needed(fields, float, "y")
    return None if at is None else Point(*at)


def _ms(fields: Fields) -> float | None:
    seconds = fields.take("time", float)
    if seconds is not None and not 0 <= seconds <= _DAY:
        raise fields.fault("time: not between 0 and a day, in seconds")
    return None if seconds is None else seconds * 1000


def _touch(op: UiOp) -> Callable[[Fields], Ui]:
    def touch(fields: Fields) -> Ui:
        target = _point(fields)
        if target is None:
            raise fields.fault("coordinate is missing")
        return Ui(op, target=target, duration_ms=_ms(fields))

    return touch


def _move(op: UiOp) -> Callable[[Fields], Ui]:
    def move(fields: Fields) -> Ui:
        target, to = _point(fields), _point(fields, "coordinate2")
        direction = fields.take("direction", Direction)
        if direction is None and (target is None or to is None):
            raise fields.fault("neither direction nor coordinate and coordinate2 say where it goes")
        return Ui(op, target=target, to=to, direction=direction, duration_ms=_ms(fields))

    return move


def _finish(fields: Fields) -> Finish:
    return Finish(fields.take("status", str) or fields.take("goal_status", str) or "complete")


def _key(name: str) -> Callable[[Fields], Ui]:
    return lambda fields: Ui("key", key=name)


_ACTIONS: dict[str, Callable[[Fields], Action]] = {
    "click": _touch("tap"),
    "tap": _touch("tap"),
    "double_tap": _touch("double_tap"),
    "long_press": _touch("long_press"),
    "swipe": _move("swipe"),
    "drag": _move("drag"),
    "scroll": _move("scroll"),
    "type": lambda fields: Ui("text", text=_needed(fields, str, "text")),
    "input_text": lambda fields: Ui("text", text=_needed(fields, str, "text")),
    "key": lambda fields: Ui("key", key=_needed(fields, str, "text", "key")),
    "system_button": lambda fields: Ui("key", key=_needed(fields, str, "button").lower()),
    "navigate_back": _key("back"),
    "navigate_home": _key("home"),
    "keyboard_enter": _key("enter"),
    "open": lambda fields: Ui("open_app", app=_needed(fields, str, "text", "app_name")),
    "open_app": lambda fields: Ui("open_app", app=_needed(fields, str, "app_name", "text")),
    "wait": lambda fields: Ui("wait", duration_ms=_ms(fields)),
    "answer": lambda fields: Finish("answer", answer=_needed(fields, str, "text")),
    "terminate": _finish,
    "status": _finish,
    "complete": _finish,
}
"""The actions of AndroidControl itself and of the mobile agents that are evaluated on it."""
