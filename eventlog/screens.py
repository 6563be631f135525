"""The screens of an episode: which event shows one, and which one an action was decided on.

Whatever comes in with a picture shows a screen: an observation, a tool's result, a message. So does an
observation that tells its viewport, though no picture was kept. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from core.event import StoredEvent
from eventlog import overlay
from eventlog.picture import Size
from eventlog.timeline import payload_of
from eventlog.wording import is_blob

_BRINGERS: Final = frozenset({"FeedbackRecorded", "MessageRecorded"})
_PLACES: Final = ("target", "to", "direction")
_NOT_SHOWN: Final = frozenset({"origin", "context", "token_ids", "logprobs"})
"""Fields whose blobs are for programs."""


class Screen(msgspec.Struct, frozen=True):
    """What an event shows. `pictures` and `texts` (UI trees) are references to blobs, as JSON."""

    version: int
    pictures: list[dict[str, Any]]
    texts: list[dict[str, Any]]
    viewport: dict[str, Any] | None
    flags: list[str]
    app: str | None

    @property
    def picture(self) -> dict[str, Any] | None:
        """The screenshot; of several, the first."""
        return self.pictures[0] if self.pictures else None

    def drawn(self, action: Any, size: Size) -> overlay.Drawn:
        """What to draw for an action that was decided on it, given the size of its screenshot."""
        if not isinstance(action, dict) or action.get("kind") != "Ui" or not any(map(action.get, _PLACES)):
            return overlay.Drawn([], [])
        try:
            return overlay.marks(action, overlay.screen(size, self.viewport))
        except (LookupError, TypeError, ValueError, AttributeError):
            return overlay.Drawn([], ["the action has another shape than its kind"])

    @property
    def size(self) -> Size | None:
        """The viewport's size, which stands for that of a screenshot that is not here."""
        width, height = (self.viewport or {}).get("width"), (self.viewport or {}).get("height")
        if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0:
            return Size(width, height)
        return None


def screen_of(event: StoredEvent, payload: Any = None) -> Screen | None:
    """The screen that an event shows, if it shows one."""
    if event.type not in _BRINGERS or not (b'"media_type"' in event.body or b'"viewport"' in event.body):
        return None
    payload = payload_of(event) if payload is None else payload
    feedback = payload.get("feedback")
    seen = feedback if isinstance(feedback, dict) and feedback.get("kind") == "Observation" else {}
    viewport = seen.get("viewport") if isinstance(seen.get("viewport"), dict) else None
    blobs = list(blobs_in(payload))
    pictures = [blob for blob in blobs if str(blob["media_type"]).startswith("image/")]
    if not pictures and viewport is None and not seen.get("blobs"):
        return None
    flags = seen.get("flags")
    return Screen(
        event.version,
        pictures,
        [blob for blob in blobs if blob not in pictures],
        viewport,
        [str(flag) for flag in flags] if isinstance(flags, list) else [],
        seen["app"] if isinstance(seen.get("app"), str) else None,
    )


def screen_at(events: Sequence[StoredEvent], index: int) -> Screen | None:
    """The screen when the event at `index` happened: its own, or the latest before it."""
    for at in range(min(index, len(events) - 1), -1, -1):
        found = screen_of(events[at])
        if found is not None:
            return found
    return None


def blobs_in(value: Any) -> Iterator[dict[str, Any]]:
    """Every reference to a blob in a payload that a person may look at, in order."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if is_blob(found):
            yield found
        elif isinstance(found, dict):
            waiting += [item for name, item in reversed(found.items()) if name not in _NOT_SHOWN]
        elif isinstance(found, list):
            waiting += reversed(found)
