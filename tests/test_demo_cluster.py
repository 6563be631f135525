"""`make demo-cluster`: the demo through a real Kafka and PostgreSQL."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker_jars import NoKafka, jars, java
from tests.cli.process import environment, trajlog

ROOT = Path(__file__).parents[1]


@pytest.fixture
def kafka() -> None:
    try:
        java()
        jars()
    except NoKafka as reason:
        pytest.skip(str(reason))


def start(home: Path, **variables: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.demo_cluster"],
        cwd=ROOT,
        env=environment(home, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def listing(output: bytes) -> list[str]:
    """What each `ls` printed, but for ids and times, which are new each time."""
    found = re.findall(r"\$ trajlog ls[^$]*", output.decode())
    return [re.sub(r"[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:]+Z", "*", one.partition("\n\n")[0]) for one in found]


def of_this_demo(folder: Path) -> list[str]:
    """The processes that were started with this folder for temporary files and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"TMPDIR={folder}\0".encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def ended(folder: Path) -> None:
    until = time.monotonic() + 20
    while of_this_demo(folder) or any(folder.iterdir()):
        assert time.monotonic() < until, (of_this_demo(folder), [*folder.iterdir()])
        time.sleep(0.2)


@pytest.fixture
def temporary(home: Path) -> Path:
    folder = home.parent / "temporary"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.mark.faults
@pytest.mark.usefixtures("kafka")
def test_it_ends_with_the_listing_of_the_demo_and_leaves_nothing_behind(home: Path, temporary: Path) -> None:
    process = start(home, TMPDIR=str(temporary))
    out, said = process.communicate(timeout=240)
    assert process.returncode == 0, said.decode()
    alone = trajlog("demo", home=home, TMPDIR=str(temporary))
    assert listing(out) == listing(alone.stdout)
    assert listing(out)[-1].count("\n") > 3
    for words in (b"whole: ", b"open: no writer keys", b"lag         0", b"$ trajlog persist"):
        assert words in out
    assert not home.exists()
    ended(temporary)


@pytest.mark.faults
@pytest.mark.usefixtures("kafka")
def test_stopped_half_way_it_stops_everything(home: Path, temporary: Path) -> None:
    process = start(home, TMPDIR=str(temporary))
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if line.startswith(b"$ trajlog persist"):
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in said
    ended(temporary)


def test_without_java_it_says_so(home: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("sh", "env"):
        (tmp_path / "bin" / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    process = start(home, PATH=str(tmp_path / "bin"), JAVA_HOME="", TRAJLOG_KAFKA_JARS=os.devnull)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 4
    lines = said.decode().splitlines()
    assert lines[-1].startswith("trajlog: make demo-cluster: no Java on this machine")
    assert lines[-1].endswith("install Java 17 and Maven, or: make demo")
