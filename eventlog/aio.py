"""The log for asyncio: the same log, its calls run in threads.

Appends of one `AsyncLog` are carried out in the order they were made. Behind Kafka they do not wait for
each other's answers.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from core.event import Event, StoredEvent
from eventlog.answers import Pipelined, settled
from eventlog.log import Accepted, Appended, Head, Log, Wait

if TYPE_CHECKING:
    from eventlog.recorder_async import AsyncRecorder

_READ_AT_ONCE = 500

T = TypeVar("T")


class AsyncLog:
    """Wraps any `Log`. Closing it closes the log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._writes = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trajlog-append")

    @property
    def log_id(self) -> bytes:
        return self.log.log_id

    @overload
    async def append(self, event: Event, *, wait: Literal["persisted"] = ...) -> Appended: ...
    @overload
    async def append(self, event: Event, *, wait: Wait) -> Appended | Accepted: ...
    async def append(self, event: Event, *, wait: Wait = "persisted") -> Appended | Accepted:
        """As `Log.append`. A cancelled append may still be committed: its event id tells."""
        if isinstance(self.log, Pipelined):
            return (await self.append_many([event], wait=wait))[0]
        return await self._write(lambda: self.log.append(event, wait=wait))

    @overload
    async def append_many(self, events: Sequence[Event], *, wait: Literal["persisted"] = ...) -> list[Appended]: ...
    @overload
    async def append_many(self, events: Sequence[Event], *, wait: Wait) -> Sequence[Appended | Accepted]: ...
    async def append_many(self, events: Sequence[Event], *, wait: Wait = "persisted") -> Sequence[Appended | Accepted]:
        """As `Log.append_many`."""
        log = self.log
        if isinstance(log, Pipelined):
            begun = await self._write(lambda: log.begin(events, wait=wait))
            answers = await asyncio.wrap_future(begun)
            return settled(answers)
        return await self._write(lambda: self.log.append_many(events, wait=wait))

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, as_of: int | None = None
    ) -> AsyncIterator[StoredEvent]:
        """As `Log.read`."""
        return _in_threads(lambda: self.log.read(stream, after=after, until=until, as_of=as_of))

    def read_all(self, *, after: int = 0, until: int | None = None) -> AsyncIterator[StoredEvent]:
        """As `Log.read_all`."""
        return _in_threads(lambda: self.log.read_all(after=after, until=until))

    async def follow(
        self, *, after: int | None = None, stream: str | None = None, poll: float = 0.05
    ) -> AsyncIterator[StoredEvent]:
        """As `Log.follow`, without the pauses between: leave the loop or cancel the task to stop."""
        position = (await self.head()).position if after is None else after
        while True:
            head = (await self.head()).position
            async for event in self.read_all(after=position, until=head):
                if stream is None or event.stream == stream:
                    yield event
            position = head
            await asyncio.sleep(poll)

    def episode(self, **given: Any) -> "AsyncRecorder":
        """As `Log.episode`, for `async with`."""
        from eventlog.recorder_async import AsyncRecorder

        return AsyncRecorder(self.log.episode(**given))

    async def head(self) -> Head:
        """As `Log.head`."""
        return await asyncio.to_thread(self.log.head)

    async def stream_head(self, stream: str) -> int:
        """As `Log.stream_head`."""
        return await asyncio.to_thread(self.log.stream_head, stream)

    async def root(self, position: int | None = None) -> bytes:
        """As `Log.root`."""
        return await asyncio.to_thread(self.log.root, position)

    async def seal(self) -> int:
        """As `Log.seal`."""
        return await asyncio.to_thread(self.log.seal)

    async def close(self) -> None:
        """Wait for appends under way, then close the log."""
        await asyncio.to_thread(self._writes.shutdown)
        await asyncio.to_thread(self.log.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def _write(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writes, work)


async def _in_threads(start: Callable[[], Iterator[StoredEvent]]) -> AsyncIterator[StoredEvent]:
    events = await asyncio.to_thread(start)
    while chunk := await asyncio.to_thread(lambda: list(islice(events, _READ_AT_ONCE))):
        for event in chunk:
            yield event
