"""Make the embedded database: initdb, roles, passwords, settings. It exists whole or not at all."""

import os
import shutil
from pathlib import Path

from core.errors import SchemaMismatch, TrajlogError, Unavailable
from eventlog import disk
from eventlog.embedded.install import MAJOR, Account, run

OWNER = "trajlog"
APP = "trajlog_app"
DATABASE = "trajlog"

SETTINGS = {
    # not /dev/shm: containers give it 64 MB, and logind empties it when the user logs out
    "dynamic_shared_memory_type": "mmap",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": "trajlog",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "jit": "off",
    "unix_socket_permissions": "0700",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
}
HBA = "local all all scram-sha-256\nlocal replication all scram-sha-256\n"


def password_file(folder: Path, role: str) -> Path:
    """Where the generated password of a role is kept."""
    return folder / f"{role}.password"


def create(folder: Path, programs: Path, user: Account, keep: tuple[int, ...]) -> None:
    """Make `folder`/data. What a killed predecessor left is swept away first."""
    import secrets

    passwords = {role: secrets.token_urlsafe(24) for role in (OWNER, APP)}
    for role, password in passwords.items():
        disk.write_atomic(password_file(folder, role), f"{password}\n".encode())
    new = folder / "data.new"
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.mkdir(mode=0o700)
        os.chown(new, user.uid, user.gid)
        _initdb(new, programs, user, keep)
        with (new / "pg_hba.conf").open("w") as file:
            file.write(HBA)
            file.flush()
            os.fsync(file.fileno())
        _roles(new, programs, user, keep, passwords)
        new.rename(folder / "data")
        disk.sync_folder(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def check_version(data: Path, programs: Path) -> None:
    """Refuse a data folder that this PostgreSQL cannot open."""
    try:
        found = (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        raise Unavailable("this is no PostgreSQL data folder", where=str(data), mend="move it away") from None
    if found == MAJOR:
        return
    if found.isdigit() and int(found) > int(MAJOR):
        mend = f"install a trajlog that brings PostgreSQL {found}"
    else:
        mend = (
            f"start it with PostgreSQL {found}'s own pg_ctl, dump it with {programs / 'pg_dump'}, and load that into "
            f"a new TRAJLOG_HOME with pg_restore"
        )
    what = f"the data is PostgreSQL {found}'s, and this is PostgreSQL {MAJOR}"
    raise SchemaMismatch(what, where=str(data), mend=mend)


def fault(output: str, where: Path) -> TrajlogError:
    """The error behind what initdb or the server printed, with the line that matters."""
    if "No space left on device" in output or "Disk quota exceeded" in output:
        return disk.disk_full(where)
    return Unavailable(f"PostgreSQL did not start: {meaningful_line(output)}", where=str(where))


def meaningful_line(output: str) -> str:
    """The last line that says what went wrong, without its time and process."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for level in (("PANIC: ", "FATAL: "), ("ERROR: ", "error: "), ("LOG: ",), ("",)):
        for line in reversed(lines):
            for word in level:
                if word in line:
                    return line[line.index(word) + len(word) :].strip()
    return "it said nothing"


def _initdb(data: Path, programs: Path, user: Account, keep: tuple[int, ...]) -> None:
    settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
    result = run(
        [
            str(programs / "initdb"),
            f"--pgdata={data}",
            f"--username={OWNER}",
            "--encoding=UTF8",
            "--locale=C",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--auth=trust",  # never served: `HBA` replaces it before the first start
            "--no-instructions",
            *settings,
        ],
        user,
        keep=keep,
    )
    if result.returncode:
        if "could not look up effective user ID" in result.stderr:
            raise Unavailable(
                f"user id {user.uid} has no name in /etc/passwd, which initdb needs",
                mend="run as a user that has one, or name a database with --db",
            )
        raise fault(result.stdout + result.stderr, data)


def _roles(data: Path, programs: Path, user: Account, keep: tuple[int, ...], passwords: dict[str, str]) -> None:
    statements = [
        "SET scram_iterations = 1",  # stretching what is random to begin with would take 5 ms of each connection
        f"ALTER ROLE {OWNER} PASSWORD '{passwords[OWNER]}'",
        f"CREATE ROLE {APP} LOGIN PASSWORD '{passwords[APP]}'",
        f"CREATE DATABASE {DATABASE} OWNER {OWNER}",
        f"REVOKE ALL ON DATABASE {DATABASE} FROM PUBLIC",
        f"GRANT CONNECT, TEMPORARY ON DATABASE {DATABASE} TO {APP}",
    ]
    single = [str(programs / "postgres"), "--single", "-c", "exit_on_error=on", "-D", str(data), "postgres"]
    result = run(single, user, stdin="\n".join(statements) + "\n", keep=keep)
    if result.returncode:
        raise fault(result.stderr, data)
