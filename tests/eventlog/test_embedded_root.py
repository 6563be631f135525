"""The embedded server for root: an unprivileged user runs it, from folders that user can reach."""

import os
import pwd
import subprocess
from pathlib import Path

import psycopg
import pytest

from core.errors import Unavailable, UsageError
from eventlog.embedded import Embedded, install, launch

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="about root alone")


def _user_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


def test_the_server_runs_as_the_user_named_and_goes_on_as_that_user(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAJLOG_PG_USER", "daemon")
    embedded = Embedded(home)
    embedded.start()
    pid = embedded.pid()
    assert pid is not None
    daemon = pwd.getpwnam("daemon").pw_uid
    assert _user_of(pid) == daemon
    assert psycopg.connect(embedded.url()).execute("SELECT 1").fetchone() == (1,)
    embedded.stop()
    monkeypatch.setenv("TRAJLOG_PG_USER", "nobody")
    with pytest.raises(UsageError, match="belongs to user daemon, not nobody"):
        embedded.start()
    monkeypatch.delenv("TRAJLOG_PG_USER")
    embedded.start()
    assert install.account(embedded.data).uid == daemon


@pytest.mark.parametrize(
    ("name", "words"), [("root", "refuses to run as root"), ("no-such-user", "no user no-such-user")]
)
def test_a_user_that_cannot_run_it_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.setenv("TRAJLOG_PG_USER", name)
    with pytest.raises(UsageError, match=words):
        Embedded(home).start()
    assert not home.exists()


def test_without_any_usable_user_it_says_what_to_set(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "ACCOUNTS", ("no-such-user",))
    with pytest.raises(Unavailable, match="set TRAJLOG_PG_USER"):
        Embedded(home).start()


def test_data_that_belongs_to_root_is_refused(home: Path) -> None:
    Embedded(home).data.mkdir(parents=True)
    with pytest.raises(Unavailable, match="belongs to root"):
        Embedded(home).start()


@pytest.mark.parametrize("closed", ["", "middle"])
def test_a_home_in_a_closed_folder_names_that_folder(home: Path, closed: str) -> None:
    place = home.parent / closed
    place.mkdir(exist_ok=True)
    place.chmod(0o700)
    with pytest.raises(Unavailable, match="cannot enter this folder") as caught:
        Embedded(place / "x" / "home").start()
    assert caught.value.where == str(place)
    assert list(place.iterdir()) == []


def test_a_tight_umask_closes_nothing_that_must_be_open(template: Path, home: Path) -> None:
    embedded = Embedded(home / "a" / "b")
    before = os.umask(0o077)
    try:
        launch.prepare(embedded)
        subprocess.run(["cp", "-a", f"{template}/postgres/.", embedded.folder], check=True)
        embedded.start()
    finally:
        os.umask(before)
    assert embedded.running()


def _wheel_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    wheel = install.find()
    for part in (wheel.parent, wheel.parent.with_suffix(".libs")):
        (folder / part.name).symlink_to(part)
    moved = folder / wheel.parent.name / wheel.name
    monkeypatch.setattr(install, "find", lambda: moved)
    return moved


@pytest.fixture
def closed_wheel(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that only root can reach, as in an environment under /root."""
    closed = home.parent / "closed"
    closed.mkdir(mode=0o700)
    return _wheel_in(closed, monkeypatch)


def test_a_wheel_that_the_user_cannot_reach_is_copied_once_for_all_homes(
    stopped: Embedded, closed_wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = stopped.home.parent / "copies"
    monkeypatch.setattr(install, "COPIES", copies)
    stopped.start()
    assert psycopg.connect(stopped.url()).execute("SELECT 1").fetchone() == (1,)
    (copy,) = copies.iterdir()
    for path in (copies, copy, *copy.rglob("*")):
        found = path.stat()
        assert found.st_uid == 0
        assert not found.st_mode & 0o022
    user = install.account(stopped.data)
    made = copy.stat().st_ctime_ns
    assert install.programs(user, stopped.folder / "install").is_relative_to(copy)
    assert copy.stat().st_ctime_ns == made
    assert not (stopped.folder / "install").exists()
    assert Path(f"/proc/{stopped.pid()}/exe").readlink().is_relative_to(copy)


def test_the_copy_lies_beside_the_data_where_the_shared_place_cannot_be_written(
    stopped: Embedded, closed_wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "COPIES", Path("/proc/no/such/place"))
    stopped.start()
    assert psycopg.connect(stopped.url()).execute("SELECT 1").fetchone() == (1,)
    assert len(list((stopped.folder / "install").iterdir())) == 1


def test_copies_made_at_once_do_not_disturb_each_other(home: Path, closed_wheel: Path) -> None:
    place = home.parent / "copies"
    code = (
        "import sys; from pathlib import Path; from eventlog.embedded import install;"
        "print(install._copy(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    from tests.eventlog.processes import python

    copiers = [python(code, str(closed_wheel), str(place), stdout=subprocess.PIPE) for _ in range(2)]
    assert len({copier.communicate()[0] for copier in copiers}) == 1
    assert [copier.returncode for copier in copiers] == [0] * 2
    assert len(list(place.iterdir())) == 1


def test_a_wheel_in_a_folder_that_no_shell_quotes_is_copied(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = home.parent / 'a "b" $c'
    odd.mkdir(mode=0o711)
    _wheel_in(odd, monkeypatch)
    monkeypatch.setattr(install, "COPIES", home.parent / "copies")
    Embedded(home).start()
    assert Embedded(home).running()


def test_a_missing_wheel_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "_WHEEL", "no_such_package")
    with pytest.raises(Unavailable, match="not installed"):
        Embedded(home).start()
