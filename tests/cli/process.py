"""Run `trajlog` as a process of its own, also on a terminal."""

import os
import pty
import select
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def environment(home: Path, **variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAJLOG", "LC_", "LANG"))}
    return {**kept, "PYTHONPATH": str(ROOT), "TRAJLOG_HOME": str(home), **variables}


def trajlog(*arguments: str, home: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(home, **variables),
        timeout=120,
        check=False,
    )


def on_a_terminal(command: list[str], variables: dict[str, str], *, columns: int = 80) -> tuple[int, str]:
    """Run with stdout and stderr on a terminal of that width; the exit code and what it showed."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=variables) as process:
        os.close(child)
        shown = b""
        while select.select([parent], [], [], 60)[0]:
            try:
                read = os.read(parent, 65536)
            except OSError:
                break
            if not read:
                break
            shown += read
    os.close(parent)
    return process.returncode, shown.decode()
