"""The process that mounted tools run in: requests out, replies back, and an end when they take too long.

Nothing of ours is imported there. It has a session of its own, so that what its tools start is ended
with it; what they print is kept only as the last lines of a bounded log.
"""

import contextlib
import os
import select
import signal
import subprocess
import threading
import time
from collections import deque
from pathlib import Path

from core.errors import Unavailable

HOST = Path(__file__).with_name("host.py")
LOG_BYTES = 16_384
MAX_REPLY = 64_000_000
_CHUNK = 1 << 18


class Died(Exception):
    """The process ended: `str` says how."""


class Late(Exception):
    """No reply within the deadline."""


class Tail:
    """A pipe that is read to its end, whatever comes: its last bytes are kept."""

    def __init__(self) -> None:
        self._read, self.end = os.pipe()
        self._kept = bytearray()
        self.size = 0
        """Bytes that have come."""

    def follow(self) -> None:
        """Read on in the background; whoever writes has its own copy of `end` by now."""
        os.close(self.end)
        threading.Thread(target=self._drain, daemon=True).start()

    def text(self) -> str:
        return bytes(self._kept).decode(errors="replace").strip()

    def last_line(self) -> str:
        """`: ` and the last line that came; nothing if none did."""
        time.sleep(0.05)  # the last of it may still be on its way
        lines = self.text().splitlines()
        return f": {lines[-1][:300]}" if lines else ""

    def _drain(self) -> None:
        try:
            while chunk := os.read(self._read, 1 << 16):
                self.size += len(chunk)
                self._kept = (self._kept + chunk)[-LOG_BYTES:]
        finally:
            os.close(self._read)


class Process:
    """One host process, running. Not for two threads at once."""

    def __init__(self, python: str, *, environ: dict[str, str], folder: str, where: str) -> None:
        requests, self._out = os.pipe()
        self._in, replies = os.pipe()
        self.log = Tail()
        try:
            self._child = subprocess.Popen(
                [python, "-s", str(HOST), str(requests), str(replies)],
                pass_fds=(requests, replies),
                stdin=subprocess.DEVNULL,
                stdout=self.log.end,
                stderr=self.log.end,
                start_new_session=True,
                env=environ,
                cwd=folder,
            )
        except OSError as error:
            for descriptor in (requests, self._out, self._in, replies):
                os.close(descriptor)
            self.log.follow()
            key, missing = ("folder", folder) if error.filename == folder else ("python", python)
            mend = "name one that is there in its mount file, and add it again"
            what = f"{key}: {missing} cannot be started: {error.strerror}"
            raise Unavailable(what, where=where, mend=mend) from error
        os.close(requests)
        os.close(replies)
        self.log.follow()
        os.set_blocking(self._out, False)
        os.set_blocking(self._in, False)
        self._poll = select.poll()
        self._poll.register(self._in, select.POLLIN)
        self._writing = False
        self._unsent = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._lines: deque[bytes] = deque()
        self._closed = False

    def send(self, requests: bytes) -> None:
        """Requests to be sent, whole lines; they go while replies are waited for."""
        self._unsent += requests
        self._write()

    def reply(self, deadline: float) -> bytes:
        """The next reply, within `deadline` seconds. `Late`, `Died`."""
        until = time.monotonic() + deadline
        while not self._lines:
            left = until - time.monotonic()
            if left <= 0:
                raise Late
            if bool(self._unsent) != self._writing:
                self._writing = bool(self._unsent)
                if self._writing:
                    self._poll.register(self._out, select.POLLOUT)
                else:
                    self._poll.unregister(self._out)
            # A process that its own children keep the pipe open for is noticed by looking.
            ready = self._poll.poll(min(left, 0.5) * 1000)
            for descriptor, _ in ready:
                if descriptor == self._in:
                    self._read()
                else:
                    self._write()
            if not ready and self._child.poll() is not None:
                raise Died(self._how())
        return self._lines.popleft()

    def kill(self) -> None:
        """End it and what it started. May be called twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        for descriptor in (self._out, self._in):
            os.close(descriptor)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.kill()

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = os.write(self._out, self._unsent[:_CHUNK])
                del self._unsent[:sent]
        except BlockingIOError:
            pass
        except BrokenPipeError:
            self._unsent.clear()

    def _read(self) -> None:
        try:
            chunk = os.read(self._in, _CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            raise Died(self._how())
        self._parts.append(chunk)
        self._size += len(chunk)
        if self._size > MAX_REPLY:
            raise Died("it answered more than can be read")
        if b"\n" in chunk:
            lines = b"".join(self._parts).split(b"\n")
            self._parts = [lines.pop()]
            self._size = len(self._parts[0])
            self._lines.extend(lines)

    def _how(self) -> str:
        """How it ended; it is not waited for long."""
        try:
            code = self._child.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its pipes"
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"it was ended by {signal.Signals(-code).name}"
        return f"it exited with {code}"


def environ(given: dict[str, str]) -> dict[str, str]:
    """The environment of a mount: little of ours, and the same on every machine."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    same = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **same, "PYTHONUTF8": "1", **given}
