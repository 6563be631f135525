"""Proofs: one event of a million, proven and checked, against showing its episode."""

import sys
import tempfile
from pathlib import Path

from tests.bench.harness import EVENTS_PER_EPISODE, Row, row, server
from tests.bench.reading import MANY, filled, processes


def run() -> list[Row]:
    """Rows `proof.make` and `proof.check` (ms of a process, against `show` of the same episode)."""
    with server() as embedded, tempfile.TemporaryDirectory(prefix="trajlog-bench-") as folder:
        url = filled(embedded, "proof", MANY)
        command = [sys.executable, "-m", "cli", "--quiet", "--db", url, "--home", folder]
        episode, pack = f"{MANY // EVENTS_PER_EPISODE // 2:016x}", str(Path(folder) / "one.pack")
        show = processes([*command, "show", episode])
        make = processes([*command, "proof", "make", f"{episode}@7", "-o", pack, "--force"])
        check = processes([*command, "proof", "check", pack])
        return [row("proof.make", make, show, "ms"), row("proof.check", check, show, "ms")]
