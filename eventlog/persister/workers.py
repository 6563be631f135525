"""Several workers, each a process: started, replaced when they die, told to end, and counted together.

A worker ends with its parent, however that ends: it listens at a pipe that nobody else holds.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog.kafka.address import KafkaAddress
from eventlog.persister.metrics import Snapshot, merged

DRAIN_S = 15.0
AGAIN_AFTER_S = 1.0
_TELL_EVERY_S = 0.5

Say = Callable[[str], None]


class Workers:
    """`count` processes that write what the topic at `address` holds into the ledger at `url`."""

    def __init__(self, count: int, url: str, address: KafkaAddress, *, say: Say) -> None:
        self._count, self._url, self._address, self._say = count, url, address, say
        self._context = multiprocessing.get_context("spawn")
        self._children: dict[Pipe, tuple[int, BaseProcess]] = {}
        self._now: dict[int, Snapshot] = {}
        self._gone = Snapshot()
        self._fatal: TrajlogError | None = None
        self._ending = False

    def metrics(self) -> Snapshot:
        """The numbers of all of them together, those that died included."""
        return merged([self._gone, *self._now.values()])

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; a worker that dies is replaced. What no replacement mends is raised."""
        due = dict.fromkeys(range(self._count), 0.0)
        try:
            while not stop.is_set() and self._fatal is None:
                for number, at in list(due.items()):
                    if time.monotonic() >= at:
                        del due[number]
                        self._start(number)
                for number in self._listen(0.2):
                    due[number] = time.monotonic() + AGAIN_AFTER_S
        finally:
            self._end()
        if self._fatal is not None:
            raise self._fatal

    def _start(self, number: int) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=_child, args=(theirs, self._url, self._address), name=f"trajlog-persist-{number}"
        )
        process.start()
        theirs.close()
        self._children[ours] = (number, process)

    def _listen(self, seconds: float) -> list[int]:
        """Hear what the workers have to say; the numbers of those that are gone."""
        gone = []
        for pipe in wait(list(self._children), seconds):
            assert isinstance(pipe, Pipe)
            number, process = self._children[pipe]
            try:
                self._hear(number, pipe.recv())
            except (EOFError, OSError):
                process.join()
                del self._children[pipe]
                pipe.close()
                self._gone = merged([self._gone, _past(self._now.pop(number, Snapshot()))])
                if self._fatal is None and not self._ending:
                    self._say(f"worker {number + 1} ended ({_how(process.exitcode)}); another takes its place")
                gone.append(number)
        return gone

    def _hear(self, number: int, message: tuple[str, Any]) -> None:
        kind, what = message
        if kind == "metrics":
            self._now[number] = msgspec.msgpack.decode(what, type=Snapshot)
        elif kind == "say":
            self._say(f"worker {number + 1}: {what}")
        else:
            *words, exit_code = what
            kind_of = {UsageError.exit_code: UsageError, Unavailable.exit_code: Unavailable}.get(
                exit_code, TrajlogError
            )
            self._fatal = kind_of(words[0], where=words[1], mend=words[2])

    def _end(self) -> None:
        self._ending = True
        for _, process in self._children.values():
            process.terminate()
        until = time.monotonic() + DRAIN_S
        while self._children and time.monotonic() < until:
            self._listen(0.2)
        for _, process in self._children.values():
            process.kill()
            process.join()


def _child(pipe: Pipe, url: str, address: KafkaAddress) -> None:
    from eventlog.kafka.client import connect
    from eventlog.persister import run

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: threading.Thread(target=stop.set).start())
    metrics = Snapshot()
    lock = threading.Lock()

    def tell(kind: str, what: Any) -> None:
        with lock:
            pipe.send((kind, what))

    def keep_telling() -> None:
        while not stop.wait(_TELL_EVERY_S):
            tell("metrics", msgspec.msgpack.encode(metrics))

    def end_with_parent() -> None:
        try:
            pipe.recv()
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=end_with_parent, daemon=True).start()
    threading.Thread(target=keep_telling, daemon=True).start()
    try:
        run(url, connect(address), stop=stop, metrics=metrics, say=lambda line: tell("say", line))
    except TrajlogError as error:
        tell("fatal", (error.what, error.where, error.mend, error.exit_code))
    tell("metrics", msgspec.msgpack.encode(metrics))


def _past(snapshot: Snapshot) -> Snapshot:
    """What stays true of a worker that is gone."""
    snapshot.lag, snapshot.refused_partitions = {}, []
    snapshot.topic_refused = snapshot.paused = False
    snapshot.seal_lag = 0
    return snapshot


def _how(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit {code}"
