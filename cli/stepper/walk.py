"""An episode to walk through: its events by index, read and worded only when they are looked at."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from core.event import StoredEvent
from eventlog.timeline import line, payload_of, step_of
from eventlog.wording import Json, Line, unfolded


class Walk:
    """`row` is what the list of episodes says of it. Indexes are from 0, versions from 1."""

    def __init__(self, episode: str, row: dict[str, Any], events: Sequence[StoredEvent]) -> None:
        self.episode = episode
        self.row = row
        self.events = events
        self.payload = cache(self._payload)
        self.line = cache(self._line)

    def __len__(self) -> int:
        return len(self.events)

    def _payload(self, index: int) -> Json:
        return payload_of(self.events[index])

    def _line(self, index: int) -> Line:
        return line(self.events[index], self.payload(index))

    def step(self, index: int) -> int | None:
        """The step that the event belongs to."""
        return step_of(self.payload(index))

    def index(self, version: int) -> int:
        """Where an event is, or the nearest there is."""
        found = min(max(version - 1, 0), max(len(self) - 1, 0))
        while found and self.events[found].version > version:
            found -= 1
        return found

    def next_step(self, index: int) -> int | None:
        """The first event of the next step."""
        here = self.step(index)
        return next((i for i in range(index + 1, len(self)) if self.step(i) not in (None, here)), None)

    def previous_step(self, index: int) -> int | None:
        """The first event of this step; from there, that of the step before."""
        here = self.step(index)
        first = index if here is None else self._first(index, here)
        if first != index:
            return first
        for before in range(index - 1, -1, -1):
            number = self.step(before)
            if number is not None:
                return self._first(before, number)
        return None

    def _first(self, index: int, step: int) -> int:
        """The first event of the run of events that belong to a step."""
        first = index
        while index > 0 and self.step(index - 1) in (step, None):
            index -= 1
            if self.step(index) == step:
                first = index
        return first

    def first_of(self, step: int) -> int | None:
        """The first event of a step."""
        return next((i for i in range(len(self)) if self.step(i) == step), None)

    def find(self, text: str, index: int, way: int) -> int | None:
        """The nearest other event that says `text`, upper and lower case alike, going round at the ends."""
        needle = text.casefold()
        for distance in range(1, len(self) + 1):
            at = (index + way * distance) % len(self)
            if any(needle in said.casefold() for said in self._said(at)):
                return at
        return None

    def _said(self, index: int) -> Iterator[str]:
        yield self.events[index].type
        yield self.line(index).action
        yield "\n".join(unfolded(self.payload(index)))
