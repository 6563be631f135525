"""`trajlog persist` as a process of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Self

from tests.cli.process import environment


class Persist:
    """A running `trajlog persist`; what it said is in `said`."""

    def __init__(self, db: str, log: str, home: Path, *arguments: str, **variables: str) -> None:
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        command = [sys.executable, "-m", "cli", "persist", "--db", db, "--log", log, *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._out, env=environment(home, **variables)
        )

    @property
    def said(self) -> str:
        self._out.seek(0)
        return self._out.read().decode()

    def end(self, timeout: float = 40) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.process.wait(timeout)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._out.close()
