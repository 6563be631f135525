"""The events of an imported episode as rows, one after the other."""

from functools import cache
from typing import TYPE_CHECKING

from core.identity import then, uuid8_of
from eventlog.pack import Packer

if TYPE_CHECKING:
    from core.identity import Begun


class Episode:
    """Packs the events that a writer's run has in a stream. Their ids follow from `begun` and their number."""

    def __init__(self, packer: Packer, stream: str, writer: str, run: bytes, begun: "Begun") -> None:
        self.packer = packer
        self._stream = stream
        self._writer = writer
        self._run = run
        self._begun = begun

    def add(
        self,
        seq: int,
        type_: str,
        schema: int,
        occurred_at: int | None,
        actor: str | None,
        conversation: str | None,
        expected_version: int | None,
        body: bytes,
    ) -> str | None:
        """Pack an event; None, or what is against it."""
        return self.packer.add(
            uuid8_of(then(self._begun, b"%d" % seq)), self._stream, self._writer, self._run, seq, type_, schema,
            occurred_at, actor, None, None, None, None, conversation, expected_version, body,
        )  # fmt: skip


@cache
def fastest() -> type[Episode]:
    """The same compiled, where it was."""
    try:
        from eventlog import native
    except ImportError:
        return Episode
    return native.Episode
