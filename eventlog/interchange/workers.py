"""Maps records in other processes, beside this one, which reads, commits and maps what they leave.

Each is a Python of its own that imports `worker` and nothing of the caller's; it ends when nobody holds
the other end of its pipe, and so with this process however that ends.
"""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import Pipe
from typing import Self

from eventlog.interchange.mapped import Digested, Job
from eventlog.interchange.worker import Answers, Sent

MOST = 3
"""More would wait for this process."""
QUEUED = 3
"""Jobs that a worker has before it at most: enough while this process has something else to do, and
few to wait for in the end."""

_PROGRAM = "import sys; from eventlog.interchange.worker import serve; serve(int(sys.argv[1]))"


def count() -> int:
    """How many workers this machine has cores for."""
    return min(MOST, len(os.sched_getaffinity(0)) - 1)


class _Worker:
    """A process, and what it was given. One thread writes to it while another reads: neither it nor
    this process waits for the other to take what it has."""

    def __init__(self) -> None:
        self._pipe, theirs = Pipe()
        with theirs, _uninterrupted():
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="trajlog-worker")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="trajlog-worker")
        self._given: list[Future[Answers | None]] = []

    @property
    def free(self) -> bool:
        """Whether it lives, and has not enough to do."""
        return self._process.poll() is None and self.waiting() < QUEUED

    def waiting(self) -> int:
        """How many jobs it has before it."""
        self._given = [future for future in self._given if not future.done()]
        return len(self._given)

    def submit(self, job: Job, sent: list[Sent]) -> "Future[Answers | None]":
        self._writer.submit(self._pipe.send_bytes, pickle.dumps((job, sent), pickle.HIGHEST_PROTOCOL))
        future: Future[Answers | None] = self._reader.submit(self._pipe.recv)
        self._given.append(future)
        return future

    def close(self) -> None:
        self._process.kill()
        for pool in (self._writer, self._reader):
            pool.shutdown(cancel_futures=True)
        self._pipe.close()
        self._process.wait()


class Workers:
    """So many processes, started when there is work. They end with the block."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._workers: list[_Worker] = []

    def start(self) -> None:
        """Start them, as far as they are not: the first work does so too, and then waits for them."""
        try:
            while len(self._workers) < self._count:
                self._workers.append(_Worker())
        except OSError:  # no more processes are to be had
            self._count = len(self._workers)

    @property
    def free(self) -> bool:
        """Whether there are any, and one has not enough to do."""
        return len(self._workers) < self._count or any(worker.free for worker in self._workers)

    def submit(self, job: Job, records: Sequence[Digested]) -> "Future[Answers | None] | None":
        """Have the records mapped; None if no worker is `free`."""
        self.start()
        worker = min((each for each in self._workers if each.free), key=_Worker.waiting, default=None)
        if worker is None:
            return None
        return worker.submit(job, [Sent(r.where, r.data, r.offset, r.twin, digest) for r, digest in records])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers:
            worker.close()


def answers(future: "Future[Answers | None]") -> Answers | None:
    """The answers, once they are there; None of a worker that was killed."""
    try:
        return future.result()
    except (OSError, EOFError):
        return None


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started here never see Ctrl-C: the one that sends them work decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
