"""Bring the embedded server up: its folders, what a killed one left behind, the process itself.

Only `Embedded.start` calls this, holding both locks.
"""

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

from core.errors import TrajlogError, Unavailable, UsageError
from eventlog import disk
from eventlog.embedded import PORT, SOCKET, Embedded, init, install

_MAX_DATA_PATH = 900  # PostgreSQL's MAXPGPATH is 1,024, its own file names included
_MAX_LOG_BYTES = 16 << 20


def prepare(embedded: Embedded) -> install.Account:
    """Make the folders, which the user that runs the server must be able to reach."""
    home, folder = embedded.home, embedded.folder
    if "\n" in str(home) or len(os.fsencode(embedded.data)) > _MAX_DATA_PATH:
        raise UsageError(
            f"PostgreSQL takes no path of more than {_MAX_DATA_PATH} bytes or with a line break",
            where=repr(str(home)[:80]),
            mend="set TRAJLOG_HOME to another one",
        )
    user = install.account(embedded.data)
    private = user.uid == os.geteuid()
    if closed := install.closed_folder(folder, user):
        raise closed
    install.open_folder(home, 0o700 if private else 0o711)
    install.open_folder(folder, 0o700 if private else 0o711)
    return user


def launch(embedded: Embedded, user: install.Account, lock: int) -> int:
    """Start the server, which inherits `lock`; the size of the log before it. Does not wait."""
    programs = install.programs(user, embedded.folder / "install")
    if embedded.data.exists():
        init.check_version(embedded.data, programs)
        _forget_dead_server(embedded)
    else:
        init.create(embedded.folder, programs, user, (lock,))
    sockets = str(_make_socket_folder(embedded, user)).replace('"', '""')
    with suppress(FileNotFoundError):
        if embedded.log_path.stat().st_size > _MAX_LOG_BYTES:
            embedded.log_path.replace(embedded.log_path.with_name("log.1"))
    log = os.open(embedded.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        log_start = os.fstat(log).st_size
        # the shell leaves at once, so that the server is no child of ours, nor ever our zombie
        shell = ("/bin/sh", "-c", '"$@" &', "sh")
        subprocess.run(
            [
                *(*shell, str(programs / "postgres"), "-D", str(embedded.data), "-p", str(PORT)),
                *("-c", "listen_addresses=", "-c", f'unix_socket_directories="{sockets}"'),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=install.ENVIRONMENT,
            cwd="/",
            umask=0o077,
            start_new_session=True,
            pass_fds=(lock,),
            check=True,
            **user.as_user(),
        )
        return log_start
    finally:
        os.close(log)


def start_fault(embedded: Embedded, log_start: int) -> TrajlogError:
    """Why the server that was just launched is gone."""
    space = os.statvfs(embedded.data)
    if space.f_bavail * space.f_frsize < 1 << 20:  # the log, on the same disk, may say nothing
        return disk.disk_full(embedded.data)
    with embedded.log_path.open("rb") as log:
        log.seek(log_start)
        return init.fault(log.read().decode(errors="replace"), embedded.log_path)


def _forget_dead_server(embedded: Embedded) -> None:
    """Remove the pid file of a server that was killed: PostgreSQL takes any process that has got
    the same pid since for that server. With the lock ours, none of its processes is left."""
    pid = embedded.pid()
    if pid is None or not Path("/proc/self/stat").exists():
        return
    with suppress(OSError):
        if Path(f"/proc/{pid}/cwd").samefile(embedded.data):
            raise Unavailable(
                f"a PostgreSQL server that trajlog did not start uses it (pid {pid})",
                where=str(embedded.data),
                mend=f"stop that one: kill -INT {pid}",
            )
    embedded.pid_file.unlink(missing_ok=True)


def _make_socket_folder(embedded: Embedded, user: install.Account) -> Path:
    folder = embedded.socket_folder()
    try:
        folder.mkdir(mode=0o700)
        os.chown(folder, user.uid, user.gid)
    except FileExistsError:
        pass
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user.uid or found.st_mode & 0o077:
        raise Unavailable(
            f"the socket's folder is not one that user {user.name} alone can use",
            where=str(folder),
            mend="remove it, or set TRAJLOG_HOME to a shorter path",
        )
    for stale in (SOCKET, f"{SOCKET}.lock"):
        (folder / stale).unlink(missing_ok=True)
    return folder
