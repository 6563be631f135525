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


def interact(
    command: list[str], variables: dict[str, str], keys: list[str], *, size: tuple[int, int] = (80, 24)
) -> tuple[int, str]:
    """Run on a terminal and type `keys`, each once the screen has come to rest; the exit code and all
    that was written to the terminal."""
    import fcntl
    import struct
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    with subprocess.Popen(
        command, stdin=child, stdout=child, stderr=child, env=variables, start_new_session=True
    ) as process:
        os.close(child)
        shown = b""
        waiting = list(keys)
        while True:
            drawn = b"\x1b[?1049h" in shown
            if not select.select([parent], [], [], 1.0 if drawn and waiting else 60)[0]:
                if not waiting:
                    process.kill()
                    break
                os.write(parent, waiting.pop(0).encode())
                continue
            try:
                read = os.read(parent, 65536)
            except OSError:
                break
            if not read:
                break
            shown += read
    os.close(parent)
    return process.returncode, shown.decode(errors="replace")
