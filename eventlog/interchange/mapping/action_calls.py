"""Actions as calls of tools, for formats that know no other kind of action."""

import re
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from core.vocabulary import BlobRef
from core.vocabulary.contract import Action, ToolCall, Ui
from core.vocabulary.episode import FeedbackRecorded
from eventlog.interchange.export.recorded import Recorded
from eventlog.interchange.mapping.messages import joined

Place = TypeVar("Place")

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_EMPTY = Raw(b"{}")

_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class Call(NamedTuple):
    """A call: the tool, the arguments as JSON, and their text where they are none."""

    tool: str
    args: Raw
    text: str | None = None

    @property
    def as_object(self) -> Raw:
        """The arguments if they are an object, else an empty one."""
        return self.args if bytes(self.args).startswith(b"{") else _EMPTY

    @property
    def as_text(self) -> str:
        """The arguments as the model wrote them."""
        return bytes(self.args).decode() if self.text is None else self.text


def call_of(action: Action, recorded: Recorded) -> Call:
    """An action as a call: a tap is a call of `tap`, a hand-off one of `delegate`."""
    if isinstance(action, ToolCall):
        text = action.args_text
        if isinstance(text, BlobRef):
            text = f"[{text.media_type} {text.address} {text.size:,} bytes]"
        return Call(action.tool, action.args, text)
    fields = _fields(recorded.fields["action"])
    fields.pop("kind", None)
    if isinstance(action, Ui):
        fields.pop("op", None)
    args = joined(fields)
    tool = action.op if isinstance(action, Ui) else _HUMP.sub("_", action.kind).lower()
    return Call(tool, args if isinstance(args, Raw) else _EMPTY)


class Calls(Generic[Place]):
    """The calls written so far: where each action went, by its version, and under which call id."""

    def __init__(self) -> None:
        self._where: dict[int, tuple[Place, str]] = {}
        self._open: dict[int, str | None] = {}

    def submit(self, version: int, action: Action, place: Place, taken: set[str]) -> str:
        """Note where an action goes; returns its call id there, its own unless that is `taken`."""
        own = action.call_id if isinstance(action, ToolCall) else None
        name = own if own and own not in taken else f"call_{version}"
        while name in taken:
            name += "_"
        self._where[version] = place, name
        self._open[version] = own
        return name

    def answered(self, answer: FeedbackRecorded) -> tuple[Place, str] | None:
        """Where the action went that a feedback answers: the one it names, else the latest without an
        answer of its call id. None if there is none."""
        version = answer.action
        if version is None and answer.call_id is not None:
            version = next((at for at in reversed(self._open) if self._open[at] == answer.call_id), None)
        if version is None or version not in self._where:
            return None
        self._open.pop(version, None)
        return self._where[version]
