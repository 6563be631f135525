"""The recorder for asyncio: the same calls, each run in a thread, in the order they were made.

async with AsyncLog(log).episode(task="message-ann") as episode:
    await episode.model("I will write to her.")
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from eventlog.recorder import Recorder

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[Recorder, P], T],
) -> Callable[Concatenate["AsyncRecorder", P], Coroutine[Any, Any, T]]:
    @wraps(method)
    async def call(self: "AsyncRecorder", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(method, self.recorder, *args, **kwargs))

    return call


class AsyncRecorder:
    """One episode being recorded; see `Recorder` for what each method does."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        # One thread: a call that was cancelled while it ran still comes before the next one.
        self._calls = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trajlog-record")

    @property
    def id(self) -> str:
        return self.recorder.id

    @property
    def stream(self) -> str:
        return self.recorder.stream

    @property
    def step(self) -> int:
        return self.recorder.step

    async def __aenter__(self) -> Self:
        await self._run(self.recorder.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._run(partial(self.recorder.__exit__, kind, error, trace))

    message = _awaited(Recorder.message)
    model = _awaited(Recorder.model)
    action = _awaited(Recorder.action)
    dispatched = _awaited(Recorder.dispatched)
    feedback = _awaited(Recorder.feedback)
    observation = _awaited(Recorder.observation)
    note = _awaited(Recorder.note)
    end = _awaited(Recorder.end)
    verify = _awaited(Recorder.verify)
    keep = _awaited(Recorder.keep)
    event = _awaited(Recorder.event)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._calls, call)
