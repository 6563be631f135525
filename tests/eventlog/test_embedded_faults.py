"""The embedded server when things go wrong: kills, races, disks, paths, versions."""

import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from core.errors import DiskFull, SchemaMismatch, Unavailable, UsageError
from eventlog.embedded import Embedded, install, launch
from tests.eventlog.mounts import tmpfs
from tests.eventlog.processes import as_user, python
from tests.eventlog.test_embedded import START, STRANGER


def _answers(embedded: Embedded) -> bool:
    with psycopg.connect(embedded.url()) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def _pid(embedded: Embedded) -> int:
    pid = embedded.pid()
    assert pid is not None
    return pid


def _kill(embedded: Embedded) -> str:
    """Kill the server; its children may outlive it for a moment. Returns the stale pid file."""
    stale = embedded.pid_file.read_text()
    os.kill(_pid(embedded), signal.SIGKILL)
    while embedded.running():
        time.sleep(0.001)
    return stale


def _others(embedded: Embedded) -> "subprocess.Popen[bytes]":
    """Another process of the user that runs the server: PostgreSQL ignores those of other users."""
    return subprocess.Popen(["sleep", "60"], **install.account(embedded.data).as_user())


def test_many_processes_starting_at_once_make_one_server(home: Path) -> None:
    starters = [python(START, str(home)) for _ in range(5)]
    assert [starter.wait() for starter in starters] == [0] * 5
    assert Embedded(home).log_path.read_text().count("starting PostgreSQL") == 1
    assert _answers(Embedded(home))


def test_starting_and_stopping_at_once_leaves_a_sound_server(stopped: Embedded) -> None:
    stop = START.replace(".start()", ".stop()")
    processes = [python(code, str(stopped.home), stdout=subprocess.DEVNULL) for code in (START, stop) * 4]
    assert [process.wait() for process in processes] == [0] * 8
    stopped.start()
    assert _answers(stopped)


def test_a_starter_killed_while_it_makes_the_database_leaves_room_for_the_next(home: Path) -> None:
    embedded = Embedded(home)
    starter = python(START, str(home), stdout=subprocess.DEVNULL)
    while not (embedded.folder / "data.new" / "PG_VERSION").exists() and starter.poll() is None:
        time.sleep(0.01)
    starter.kill()
    starter.wait()
    embedded.start()
    assert _answers(embedded)
    assert not (embedded.folder / "data.new").exists()


def test_a_killed_server_starts_again_with_all_that_was_committed(stopped: Embedded) -> None:
    stopped.start()
    with psycopg.connect(stopped.url(owner=True)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    _kill(stopped)
    stopped.start()
    with psycopg.connect(stopped.url(owner=True)) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_stale_pid_file_whose_pid_another_process_has_now_is_no_obstacle(stopped: Embedded) -> None:
    stopped.start()
    pid, stale = _pid(stopped), _kill(stopped)
    other = _others(stopped)
    try:
        stopped.pid_file.write_text(stale.replace(str(pid), str(other.pid), 1))
        assert not stopped.running()
        stopped.stop()
        assert other.poll() is None, "stop must not signal a stranger"
        stopped.start()
        assert _answers(stopped)
    finally:
        other.kill()
        other.wait()


def test_a_stale_pid_file_that_names_another_server_is_no_obstacle(stopped: Embedded, server: Embedded) -> None:
    stopped.start()
    pid, stale = _pid(stopped), _kill(stopped)
    while stopped.alive():
        time.sleep(0.001)
    stopped.pid_file.write_text(stale.replace(str(pid), str(_pid(server)), 1))
    assert not stopped.running()
    stopped.start()
    assert _answers(stopped)
    assert _answers(server)


def test_a_server_that_someone_else_started_on_the_folder_is_named(stopped: Embedded) -> None:
    user = launch.prepare(stopped)
    programs = install.programs(user, stopped.folder / "install")
    foreign = subprocess.Popen(
        [str(programs / "postgres"), "-D", str(stopped.data), "-k", "/tmp", "-p", "54329", "-c", "listen_addresses="],
        stderr=subprocess.DEVNULL,
        cwd="/",
        **user.as_user(),
    )
    try:
        while not stopped._ready():
            time.sleep(0.01)
        with pytest.raises(Unavailable, match=f"did not start uses it \\(pid {foreign.pid}\\)"):
            stopped.start()
    finally:
        foreign.send_signal(signal.SIGINT)
        foreign.wait()
    stopped.start()
    assert _answers(stopped)


def test_a_suspended_starter_is_waited_for_only_so_long(stopped: Embedded) -> None:
    code = """
        import fcntl, os, sys, time
        fcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        print("locked", flush=True)
        time.sleep(60)
    """
    holder = python(code, str(stopped.folder / "start.lock"), stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        with pytest.raises(Unavailable, match="another process is still starting"):
            stopped.start(timeout=0.2)
    finally:
        holder.kill()
        holder.communicate()


def test_stop_ends_a_server_whose_backend_is_suspended(stopped: Embedded) -> None:
    stopped.start()
    with psycopg.connect(stopped.url(owner=True)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        connection.commit()
        os.kill(connection.info.backend_pid, signal.SIGSTOP)
        stopped.stop(timeout=0.3)
    assert not stopped.alive()
    stopped.start()
    with psycopg.connect(stopped.url(owner=True)) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_lost_password_is_named(stopped: Embedded) -> None:
    (stopped.folder / "trajlog_app.password").unlink()
    with pytest.raises(Unavailable, match="password is gone"):
        stopped.url()


def test_a_configuration_that_does_not_start_is_told_with_the_logs_own_line(stopped: Embedded) -> None:
    with (stopped.data / "postgresql.conf").open("a") as file:
        file.write("shared_buffers = 'a lot'\n")
    with pytest.raises(Unavailable, match=r"did not start: .*postgresql\.conf.* contains errors") as caught:
        stopped.start()
    assert "\n" not in str(caught.value)
    assert str(stopped.log_path) in str(caught.value)


def test_a_damaged_database_is_told_with_the_logs_own_line(stopped: Embedded) -> None:
    (stopped.data / "global" / "pg_control").write_bytes(b"\0" * 8192)
    with pytest.raises(Unavailable, match="did not start: "):
        stopped.start()
    assert not stopped.alive()


@pytest.mark.parametrize(("version", "mend"), [("16", "pg_dump"), ("19", "brings PostgreSQL 19")])
def test_data_of_another_major_version_is_named_with_the_way_to_upgrade_it(
    stopped: Embedded, version: str, mend: str
) -> None:
    (stopped.data / "PG_VERSION").write_text(f"{version}\n")
    with pytest.raises(SchemaMismatch, match=f"PostgreSQL {version}'s.*{mend}"):
        stopped.start()


def test_a_data_folder_that_is_none_is_left_alone(home: Path) -> None:
    embedded = Embedded(home)
    embedded.data.mkdir(parents=True)
    (embedded.data / "letter").write_text("dear")
    if os.geteuid() == 0:
        for folder in (home, embedded.folder):
            folder.chmod(0o711)
        os.chown(embedded.data, pwd.getpwnam("nobody").pw_uid, -1)
    with pytest.raises(Unavailable, match="no PostgreSQL data folder"):
        embedded.start()
    assert (embedded.data / "letter").read_text() == "dear"


def test_a_home_that_is_a_file_is_refused(home: Path) -> None:
    home.write_text("")
    with pytest.raises(UsageError, match="a file stands where a folder is needed"):
        Embedded(home).start()


def test_a_path_too_long_for_a_socket_gets_a_private_folder_elsewhere(template: Path, home: Path) -> None:
    deep = home / "/".join(["d" * 100] * 5)
    deep.parent.mkdir(parents=True)
    if os.geteuid() == 0:
        for folder in (home, *home.rglob("d*")):
            folder.chmod(0o711)
    subprocess.run(["cp", "-a", str(template), str(deep)], check=True)
    embedded = Embedded(deep)
    embedded.start()
    assert _answers(embedded)
    folder = embedded.socket_folder()
    assert not folder.is_relative_to(home)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_uid == embedded.data.stat().st_uid
    assert _answers(Embedded(deep))
    embedded.stop()
    assert not folder.exists()


def test_a_short_folder_that_someone_else_made_is_not_used(template: Path, home: Path) -> None:
    deep = home.parent / ("d" * 120)
    subprocess.run(["cp", "-a", str(template), str(deep)], check=True)
    embedded = Embedded(deep)
    folder = embedded.socket_folder()
    folder.mkdir()
    try:
        folder.chmod(0o777)
        with pytest.raises(Unavailable, match="alone can use"):
            embedded.start()
        folder.rmdir()
        folder.symlink_to(home.parent)
        with pytest.raises(Unavailable, match="alone can use"):
            embedded.start()
    finally:
        folder.unlink()


def test_a_path_that_no_postgres_takes_is_refused(home: Path) -> None:
    for bad in (home / "/".join(["d" * 200] * 5), home / "two\nlines"):
        with pytest.raises(UsageError, match="set TRAJLOG_HOME") as caught:
            Embedded(bad).start()
        assert "\n" not in str(caught.value)
    assert not home.exists()


def test_a_comma_which_libpq_takes_for_a_list_of_hosts_is_kept_out_of_the_sockets_path(
    template: Path, home: Path
) -> None:
    subprocess.run(["cp", "-a", str(template), f"{home},x"], check=True)
    embedded = Embedded(Path(f"{home},x"))
    embedded.start()
    assert _answers(embedded)


def test_a_folder_name_that_is_not_utf8_will_do(template: Path, home: Path) -> None:
    place = os.fsdecode(os.fsencode(home) + b"-caf\xe9")
    subprocess.run(["cp", "-a", str(template), place], check=True)
    embedded = Embedded(Path(place))
    embedded.start()
    assert _answers(embedded)


def test_a_moved_home_is_found_again(stopped: Embedded) -> None:
    stopped.start()
    moved = stopped.home.parent / "moved"
    stopped.home.rename(moved)
    assert Embedded(moved).running()
    assert _answers(Embedded(moved))
    Embedded(moved).stop()
    Embedded(moved).start()
    assert _answers(Embedded(moved))


def test_a_disk_too_small_for_the_database_leaves_nothing_behind() -> None:
    with tmpfs("30m") as mount:
        embedded = Embedded(mount / "home")
        with pytest.raises(DiskFull, match="no space left"):
            embedded.start()
        assert not embedded.data.exists()
        assert not (embedded.folder / "data.new").exists()
        assert not embedded.running()


def test_a_disk_that_filled_up_is_named_and_room_is_all_it_needs(template: Path) -> None:
    with tmpfs("80m") as mount:
        subprocess.run(["cp", "-a", str(template), str(mount / "home")], check=True)
        embedded = Embedded(mount / "home")
        try:
            with (mount / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
                while True:
                    file.write(b"\0" * 4096)
            with pytest.raises(DiskFull, match="no space left"):
                embedded.start()
            (mount / "filler").unlink()
            embedded.start()
            assert _answers(embedded)
        finally:
            embedded.stop()


def test_a_read_only_disk_is_named(template: Path) -> None:
    with tmpfs("80m") as mount:
        subprocess.run(["cp", "-a", str(template), str(mount / "home")], check=True)
        subprocess.run(["mount", "-o", "remount,ro", str(mount)], check=True)
        for name in ("home", "fresh"):
            with pytest.raises(Unavailable, match="read-only"):
                Embedded(mount / name).start()


def test_a_folder_one_may_not_write_is_named(home: Path) -> None:
    assert "may not use it" in as_user(STRANGER, Embedded(home).start)
