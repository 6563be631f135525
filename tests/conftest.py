"""Fixtures that more than one room uses. Servers are real, and always stopped."""

import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from eventlog.embedded import Embedded
from tests.databases import Databases
from tests.examples import examples
from tests.once import once, run_folder

if TYPE_CHECKING:
    from tests.broker import Cluster

# What takes long does so by the machine.
settings.register_profile(
    "often", max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("often")
# The tests themselves are kept to the end: let the collector not look through them again and again.
gc.disable()
# A job in the background of a script ignores Ctrl-C and so would every process started here.
signal.signal(signal.SIGINT, signal.default_int_handler)
# A terminal's size is what the terminal says.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)


def _place() -> Path:
    """Where homes are made: in memory if there is plenty, since each has a thousand files.

    Not pytest's own folders, which are 0700: as root, the user that runs PostgreSQL could not enter.
    """
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK):
        found = os.statvfs(memory)
        if found.f_bavail * found.f_frsize > 2 << 30 and not found.f_flag & os.ST_NOEXEC:
            return memory
    return Path("/tmp")


def _home() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="trajlog-test-", dir=_place()))
    folder.chmod(0o711)
    return folder / "home"


def _sweep(home: Path) -> None:
    for folder in home.parent.rglob("postgres"):
        if (folder / "server.lock").exists():
            Embedded(folder.parent).stop()
    shutil.rmtree(home.parent)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a stopped server, made once, to be copied."""

    @contextmanager
    def make() -> Iterator[str]:
        home = _home()
        try:
            Embedded(home).start()
            Embedded(home).stop()
            yield str(home)
        finally:
            _sweep(home)

    with once(run_folder(tmp_path_factory.getbasetemp()), "template", make) as home:
        yield Path(home)


@pytest.fixture(scope="session")
def server(template: Path) -> Iterator[Embedded]:
    """A running server, shared by the session; each user makes a database of its own."""
    home = _home()
    try:
        subprocess.run(["cp", "-a", template, home], check=True)
        embedded = Embedded(home)
        embedded.start()
        yield embedded
    finally:
        _sweep(home)


@pytest.fixture(scope="session")
def databases(server: Embedded) -> Databases:
    """Databases on that server."""
    return Databases(server)


@pytest.fixture
def home() -> Iterator[Path]:
    """A data folder that does not exist yet; servers started in or under it are stopped."""
    path = _home()
    try:
        yield path
    finally:
        _sweep(path)


@pytest.fixture
def stopped(template: Path, home: Path) -> Embedded:
    """A stopped server of the test's own."""
    subprocess.run(["cp", "-a", template, home], check=True)
    return Embedded(home)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Cluster"]:
    """A Kafka of one node, or the one that `TRAJLOG_TEST_KAFKA` names: make topics of your own in it."""
    from tests.broker import Cluster, Elsewhere

    @contextmanager
    def make() -> Iterator[str]:
        with kafka(Cluster) as found:
            yield ",".join(found.bootstrap)

    places = os.environ.get("TRAJLOG_TEST_KAFKA")
    with ExitStack() as ours:
        places = places or ours.enter_context(once(run_folder(tmp_path_factory.getbasetemp()), "kafka", make))
        yield ours.enter_context(Elsewhere(places))


@pytest.fixture(scope="module")
def cluster() -> Iterator["Cluster"]:
    """A Kafka of three nodes, to be broken."""
    from tests.broker import Cluster

    with kafka(lambda: Cluster(nodes=3)) as found:
        yield found


@contextmanager
def kafka(make: "Callable[[], Cluster]") -> "Iterator[Cluster]":
    """A cluster while it is used; a skip, with the reason, where Kafka cannot run."""
    from tests.broker_jars import NoKafka

    try:
        found = make()
    except NoKafka as reason:
        pytest.skip(str(reason))
    with found:
        yield found


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# A skip that says one of these depends on the machine; in continuous integration any other fails the run.
ALLOWED_SKIPS = (
    "needs root", "may not mount", "about root alone", "an ordinary user cannot reach", "not here", "not compiled here",
)  # fmt: skip


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or os.environ.get("CI", "").lower() not in ("true", "1"):
        return
    for report in reporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            reporter.write_line(f"\nnot allowed to be skipped here: {report.nodeid} ({reason})", red=True)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
