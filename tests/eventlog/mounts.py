"""File systems of a chosen size, for tests of full and read-only disks."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def tmpfs(size: str) -> Iterator[Path]:
    """A fresh file system of `size`, gone afterwards; skips the test where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    folder = Path(tempfile.mkdtemp(prefix="trajlog-test-", dir="/tmp"))
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=711", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode:
        folder.rmdir()
        pytest.skip(f"this root may not mount: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()
