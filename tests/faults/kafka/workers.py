"""Workers of the persister as processes, which can be told to be killed or stopped at a point of a transaction.

They are forked from a process that has imported everything, as starting Python is most of a short run.
"""

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from typing import Any, Literal, NamedTuple

import psycopg

from eventlog.kafka.address import KafkaAddress
from eventlog.kafka.client import connect
from eventlog.persister.transaction import Point
from eventlog.persister.worker import Worker

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "tests.faults.kafka.planner"])


class Halt(NamedTuple):
    """Where a worker is killed (-9) or stopped (SIGSTOP), by itself: the `nth` time that it comes there."""

    point: Point | Literal["in_copy"]
    nth: int = 1
    how: Literal["kill", "stop"] = "kill"


class Child:
    """A process of a scenario; what it tells is collected on a thread."""

    def __init__(self, target: Any, *arguments: Any) -> None:
        self._pipe, theirs = _context.Pipe()
        self._process = _context.Process(target=target, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()
        self.said: list[str] = []
        self.told: dict[str, list[Any]] = {}
        self.ended_by_us = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    @property
    def code(self) -> int | None:
        return self._process.exitcode

    def heard(self, words: str) -> bool:
        return any(words in line for line in self.said)

    def send(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.ended_by_us = True
        self.send(signal.SIGKILL)
        self._process.join()

    def join(self, timeout: float) -> None:
        """Wait for its end, then for what it told last."""
        self._process.join(timeout)
        assert not self.alive, f"it does not end: {self.said}"
        self._thread.join(timeout)

    def close(self) -> None:
        if self.alive:
            self.send(signal.SIGCONT)
            self.kill()
        self._thread.join(10)
        self._pipe.close()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                kind, what = self._pipe.recv()
                if kind == "say":
                    self.said.append(what)
                else:
                    self.told.setdefault(kind, []).append(what)


class WorkerProcess(Child):
    """One worker."""

    def __init__(self, url: str, address: str, halt: Halt | None = None) -> None:
        self.doomed = halt is not None and halt.how == "kill"
        super().__init__(_work, url, address, halt)

    @property
    def commits(self) -> int:
        return len(self.told.get("commit", ()))

    @property
    def halted(self) -> bool:
        """Whether it has come to its point."""
        return "halt" in self.told

    @property
    def failed(self) -> bool:
        """Whether it ended, and nobody had wanted that."""
        return not self.alive and not self.ended_by_us and not (self.doomed and self.code == -signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM: it commits what it holds, and ends."""
        self.ended_by_us = True
        self.send(signal.SIGTERM)

    def end(self, timeout: float = 40) -> None:
        """SIGTERM, and wait for a good end."""
        self.terminate()
        self.join(timeout)
        assert self.code == 0, (self.code, self.said)


def end_with_parent(pipe: Pipe) -> None:
    """End as soon as the other end of the pipe is closed, however that comes."""

    def wait() -> None:
        with suppress(EOFError, OSError):
            pipe.recv()
        os._exit(3)

    threading.Thread(target=wait, daemon=True).start()


def _work(pipe: Pipe, url: str, address: str, halt: Halt | None) -> None:
    stop, lock = threading.Event(), threading.Lock()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=stop.set).start())
    end_with_parent(pipe)
    passed = 0

    def tell(kind: str, what: Any) -> None:
        with lock:
            pipe.send((kind, what))

    def come(point: str) -> None:
        nonlocal passed
        if halt is None or point != halt.point:
            return
        passed += 1
        if passed == halt.nth:
            tell("halt", point)
            os.kill(os.getpid(), signal.SIGKILL if halt.how == "kill" else signal.SIGSTOP)

    def hook(point: Point) -> None:
        if point == "after_commit":
            tell("commit", 1)
        come(point)

    if halt is not None and halt.point == "in_copy":
        write = psycopg.Copy.write

        def write_and_come(self: Any, data: Any) -> None:
            write(self, data)
            come("in_copy")

        psycopg.Copy.write = write_and_come  # type: ignore[method-assign,assignment]
    try:
        Worker(
            url, connect(KafkaAddress.parse(address)), stop=stop, hook=hook, say=lambda line: tell("say", line)
        ).run()
    except BaseException as error:
        tell("say", f"ended: {error!r}")
        raise
