"""Maps records in other processes, beside this one, which reads, commits and maps only what they leave:
else the thread that commits would wait for it.

They are forked from a Python of their own that has imported `worker` and nothing of the caller's, in a
process group of their own, which Ctrl-C does not reach: the process that sends them work decides. Each
ends when nobody holds the other end of its pipe, and so with this process however that ends.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Self

from eventlog.interchange.mapped import Digested, Job
from eventlog.interchange.worker import Answers, Sent

MOST = 3
"""More would wait for this process."""
_PROGRAM = "import sys; from eventlog.interchange.worker import run; run([int(given) for given in sys.argv[1:]])"


def count() -> int:
    """How many workers this machine has cores for: this process leaves them free most of the time."""
    cores = len(os.sched_getaffinity(0))
    return min(MOST, cores) if cores > 1 else 0


class _Worker:
    """The way to a process, and what it was given. One thread writes to it while another reads: neither it
    nor this process waits for the other to take what it has."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="trajlog-worker")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="trajlog-worker")
        self._given: list[Future[Answers | None]] = []
        self._died = False

    @property
    def lives(self) -> bool:
        """Whether it lives, as far as its answers tell."""
        done = [future for future in self._given if future.done()]
        self._died = self._died or any(future.exception() for future in done)
        self._given = [future for future in self._given if future not in done]
        return not self._died

    @property
    def waiting(self) -> int:
        """How many jobs it has before it, as far as was looked."""
        return len(self._given)

    def submit(self, job: Job, sent: list[Sent]) -> "Future[Answers | None]":
        self._writer.submit(self._pipe.send_bytes, pickle.dumps((job, sent), pickle.HIGHEST_PROTOCOL))
        future: Future[Answers | None] = self._reader.submit(self._pipe.recv)
        self._given.append(future)
        return future

    def close(self) -> None:
        for pool in (self._writer, self._reader):
            pool.shutdown(cancel_futures=True)
        self._pipe.close()


class Workers:
    """So many processes, started when there is work. They end with the block."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start them, unless they are: the first work does so too, and then waits for them."""
        if self._workers or not self._count:
            return
        with ExitStack() as stack:
            theirs: list[Connection] = []
            try:
                for _ in range(self._count):
                    ours, other = Pipe()
                    self._workers.append(_Worker(ours))
                    theirs.append(stack.enter_context(other))
                self._process = _forked([other.fileno() for other in theirs])
            except OSError:  # no more processes are to be had
                self._count = 0
                self._close()

    def submit(self, job: Job, records: Sequence[Digested]) -> "Future[Answers | None] | None":
        """Have the records mapped; None if there is no worker that lives."""
        self.start()
        living = [worker for worker in self._workers if worker.lives]
        if not living:
            return None
        sent = [Sent(r.where, r.data, r.offset, r.twin, digest) for r, digest in records]
        return min(living, key=attrgetter("waiting")).submit(job, sent)

    def _close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._close()


def answers(future: "Future[Answers | None]") -> Answers | None:
    """The answers, once they are there; None of a worker that was killed."""
    try:
        return future.result()
    except (OSError, EOFError):
        return None


def _forked(descriptors: list[int]) -> subprocess.Popen[bytes]:
    """The first of the workers, which makes the others: one for each pipe."""
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, *map(str, descriptors)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
        process_group=0,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
