"""Writers as processes: started, listened to, stopped, killed."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from eventlog.ledger import Ledger
from eventlog.verify import verify

ROOT = Path(__file__).parents[2]


class Process:
    """`tests.faults.writer` at work; `acks` are the events that it was told are stored."""

    def __init__(self, url: str, name: str, work: str, seed: int = 1) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.writer", url, name, work, str(seed)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.acks: list[tuple[bytes, int, str, int]] = []
        self.words: list[str] = []
        self._news: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, *rest = line.split()
            if word == "ack":
                self.acks.append((bytes.fromhex(rest[0]), int(rest[1]), rest[2], int(rest[3])))
            else:
                self.words.append(line.strip())
            self._news.put(word)
        self._news.put(None)

    def wait_for(self, word: str, timeout: float = 60) -> None:
        """Until it has said this."""
        until = time.monotonic() + timeout
        while True:
            said = self._news.get(timeout=max(0.01, until - time.monotonic()))
            if said == word:
                return
            if said is None:
                raise AssertionError(f"ended without saying {word}: {self._errors()}")

    def go_on(self) -> None:
        """Give it the line that it waits for."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def finish(self, timeout: float = 60) -> None:
        """Until it has ended well."""
        code = self._process.wait(timeout)
        self._thread.join()
        assert code == 0, self._errors()

    def join(self) -> None:
        """Until it has ended, however."""
        self._process.wait()
        self._thread.join()

    def _errors(self) -> str:
        assert self._process.stderr is not None
        return self._process.stderr.read()[-2_000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def check_whole(log: Ledger, *writers: Process) -> None:
    """Positions and versions are dense, all that was acknowledged is where it was said to be, nothing
    is there twice, and verification finds nothing."""
    log.seal()
    stored = {}
    heads: dict[str, int] = {}
    for position, event in enumerate(log.read_all(), 1):
        assert event.position == position
        heads[event.stream] = heads.get(event.stream, 0) + 1
        assert event.version == heads[event.stream]
        assert event.event_id not in stored
        stored[event.event_id] = (position, event.stream, event.version)
    assert log.head().position == len(stored)
    for writer in writers:
        for event_id, *place in writer.acks:
            assert stored[event_id] == tuple(place)
    report = verify(log.reader)
    assert report.problems == []
