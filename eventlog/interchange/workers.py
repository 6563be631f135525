"""Maps records in other processes, beside this one, which reads, commits and maps what they leave.

A worker has neither the log nor the blob store: it takes every record for new. What it would have to
ask for, it leaves to the process that has both.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from hashlib import sha256
from typing import NamedTuple, Self, get_args

from core.vocabulary import BlobRef
from core.vocabulary.base import Split
from eventlog.blobs.media_type import sniff
from eventlog.interchange import Record
from eventlog.interchange.mapped import Desk, Digested, Job, Mapped, mapped

MOST = 3
"""More would wait for this process."""
QUEUED = 3
"""Jobs that a worker has before it at most: enough while this process has something else to do, and
few to wait for in the end."""


class Answer(NamedTuple):
    """What a record became, and the bytes to store for it besides its own, by their addresses."""

    mapped: Mapped
    blobs: dict[str, bytes]


class _Sent(NamedTuple):
    """A record on its way, without what its bytes say: our formats read the bytes."""

    where: str
    data: bytes
    offset: int
    twin: bool
    digest: bytes


class _Elsewhere(Exception):
    """The mapping needs what a worker has not."""


def count() -> int:
    """How many workers this machine has cores for."""
    return min(MOST, len(os.sched_getaffinity(0)) - 1)


class _Worker:
    """A process, started when there is work, and what it was given.

    A pool of its own: a pool of several that starts one while another dies waits for it for ever
    (seen with Python 3.11).
    """

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
        self._given: list[Future[list[Answer | None]]] = []

    def waiting(self) -> int:
        """How many jobs it has before it."""
        self._given = [future for future in self._given if not future.done()]
        return len(self._given)

    def submit(self, job: Job, sent: list[_Sent]) -> "Future[list[Answer | None]]":
        with _uninterrupted():
            future = self._pool.submit(_map, job, sent)
        self._given.append(future)
        return future

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Workers:
    """So many processes, started when there is work. They end with the block."""

    def __init__(self, count: int) -> None:
        self._workers = [_Worker() for _ in range(count)]
        self._dead: list[_Worker] = []

    @property
    def free(self) -> bool:
        """Whether there are any, and one has not enough to do."""
        return any(worker.waiting() < QUEUED for worker in self._workers)

    def submit(self, job: Job, records: Sequence[Digested]) -> "Future[list[Answer | None]] | None":
        """Have the records mapped: an answer each, in order, None where it was left. None if no worker
        is `free`."""
        sent: list[_Sent] | None = None
        while self.free:
            worker = min(self._workers, key=_Worker.waiting)
            sent = sent or [_Sent(r.where, r.data, r.offset, r.twin, digest) for r, digest in records]
            try:
                return worker.submit(job, sent)
            except BrokenProcessPool:
                self._workers.remove(worker)
                self._dead.append(worker)
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for worker in self._workers + self._dead:
            worker.close()


def answers(future: "Future[list[Answer | None]]", number: int) -> list[Answer | None]:
    """The answers, once they are there; of a worker that was killed, none."""
    try:
        return future.result()
    except BrokenProcessPool:
        return [None] * number


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started here never see Ctrl-C: the one that sends them work decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _map(job: Job, records: list[_Sent]) -> list[Answer | None]:
    known = {split: split for split in get_args(Split)}
    job = job._replace(split=known[job.split])  # msgspec leaves a default out that is the very same object
    return [_answer(job, sent) for sent in records]


def _answer(job: Job, sent: _Sent) -> Answer | None:
    digested = Digested(Record(sent.where, sent.data, {}, sent.offset, sent.twin), sent.digest)
    blobs: dict[str, bytes] = {}
    try:
        made = mapped(job, digested, Desk(_keeping(blobs), blobs.__setitem__, _elsewhere, lambda _, __: 1))
    except _Elsewhere:
        return None
    blobs.pop(digested.address, None)
    return Answer(made, blobs)


def _keeping(blobs: dict[str, bytes]) -> Callable[[bytes], BlobRef]:
    def keep(data: bytes) -> BlobRef:
        address = f"sha256:{sha256(data).hexdigest()}"
        blobs[address] = data
        return BlobRef(address, len(data), sniff(data))

    return keep


def _elsewhere(_: str) -> bool:
    raise _Elsewhere
