"""Large blocks that are freed go back to the system, however many were freed before."""

import subprocess
import sys

import pytest

_HELD = """
import sys
from pathlib import Path
from eventlog.persister.allocator import large_blocks_apart

def held():
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024

if sys.argv[1] == "apart":
    large_blocks_apart()
begun = held()
small = []
for _ in range(20):  # each leaves small objects above what it frees
    large = [bytearray(b"x") * (6 << 20) for _ in range(3)]
    small.append([object() for _ in range(2_000)])
    small.append([bytes(600) for _ in range(200)])
    del large
print(held() - begun)
"""


def grown(how: str) -> float:
    done = subprocess.run([sys.executable, "-c", _HELD, how], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_what_is_freed_is_given_back() -> None:
    assert grown("apart") < 12
