"""What an importer makes of a record: drafts of episodes, before they have ids and places."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from core.vocabulary import BlobRef, Payload
from core.vocabulary.base import Split
from core.vocabulary.episode import EpisodeStarted


class EventDraft(msgspec.Struct, frozen=True):
    """One event of an episode; times are µs, None where the source has none."""

    payload: Payload
    occurred_at: int | None = None
    actor: str | None = None
    conversation: str | None = None


_UNTOLD = EpisodeStarted()


class EpisodeDraft:
    """An episode in the making: its start, what follows in order, and what could not be mapped.

    The importer fills in everything but `origin`. A `split` other than `train`, which only a record
    that says so itself may set, stands; else it is the import's.
    """

    def __init__(self, started: EpisodeStarted = _UNTOLD, *, occurred_at: int | None = None) -> None:
        self.events = [EventDraft(started, occurred_at)]
        self.unmapped: Counter[str] = Counter()

    @property
    def started(self) -> EpisodeStarted:
        started = self.events[0].payload
        assert isinstance(started, EpisodeStarted)
        return started

    def start(self, started: EpisodeStarted) -> None:
        """Put another start in the place of the one there is, which happened when that did."""
        self.events[0] = replace(self.events[0], payload=started)

    def add(
        self,
        payload: Payload,
        *,
        occurred_at: int | None = None,
        actor: str | None = None,
        conversation: str | None = None,
    ) -> int:
        """Append an event and return its version in the episode's stream."""
        self.events.append(EventDraft(payload, occurred_at, actor, conversation))
        return len(self.events)

    def left(self, reasons: Iterable[str]) -> None:
        """Count what could not be mapped."""
        for reason in reasons:
            self.unmapped[reason] += 1


def _unnamed(ordinal: int) -> str:
    return str(ordinal)


class Context(msgspec.Struct, frozen=True):
    """What an importer is given besides the record: where it lies, what its episodes are for, and
    `keep`, which stores bytes as a blob.

    `has` tells whether a blob is stored; `folder` is that of the record's file; `strict` asks to
    reject what breaks the format's rules; `episode` is the id of the record's nth episode, from 0.
    """

    where: str
    split: Split
    keep: Callable[[bytes], BlobRef]
    has: Callable[[str], bool] = bool
    folder: Path | None = None
    strict: bool = False
    episode: Callable[[int], str] = _unnamed
