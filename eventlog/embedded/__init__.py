"""The embedded PostgreSQL: a server of our own under the data folder, started when needed, left
running, reachable through a private socket by whoever holds the generated passwords.

Whether it lives is a kernel fact: the server and all its children inherit a lock on `server.lock`,
so that neither a stale pid file nor another process with the same pid can pass for it.

    home/postgres/  data/  socket/  log  server.lock  start.lock  trajlog.password  trajlog_app.password
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from core.errors import Unavailable, UsageError
from eventlog import disk

PORT = 5432
OWNER = "trajlog"
APP = "trajlog_app"
DATABASE = "trajlog"
SOCKET = f".s.PGSQL.{PORT}"

_MAX_SOCKET_PATH = 107  # sockaddr_un holds 108 bytes with the NUL
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def default_home() -> Path:
    """TRAJLOG_HOME, else the platform's user data folder; for root one that its server can reach."""
    if chosen := os.environ.get("TRAJLOG_HOME"):
        return Path(chosen).expanduser()
    if os.geteuid() == 0:
        return Path("/var/lib/trajlog/data")
    import platformdirs

    home = platformdirs.user_data_path("trajlog")
    if not home.is_absolute():
        raise UsageError("this user has no home folder", mend="set TRAJLOG_HOME")
    return home


class Embedded:
    """One embedded server; `home` is the data folder it lives under."""

    def __init__(self, home: Path) -> None:
        self.home = Path(os.path.realpath(home))
        self.folder = self.home / "postgres"
        self.data = self.folder / "data"
        self.log_path = self.folder / "log"
        self.pid_file = self.data / "postmaster.pid"

    def running(self) -> bool:
        """Whether it accepts connections."""
        with disk.faults(self.folder):
            return self.alive() and self._ready()

    def start(self, timeout: float = 60.0) -> None:
        """Start it, making the database first if there is none; does nothing if it runs already.

        Any number of processes may call this at once. `timeout` is in seconds.
        """
        if self.running():
            return
        from eventlog.embedded import launch

        deadline = time.monotonic() + timeout
        with disk.faults(self.home):
            user = launch.prepare(self)
            with self._locked("start.lock", deadline):
                with self._locked("server.lock", deadline) as lock:
                    if lock is None:
                        return
                    log_start = launch.launch(self, user, lock)
                while not self._ready():
                    if not self.alive():
                        raise launch.start_fault(self, log_start)
                    _pause(deadline, self.log_path, "PostgreSQL is still starting")

    def stop(self, timeout: float = 30.0) -> None:
        """End it and wait until it has gone; does nothing if it does not run.

        What has not ended in order after `timeout` seconds is cut short, which loses no commit.
        """
        import signal

        deadline = time.monotonic() + timeout
        with disk.faults(self.folder):
            if not self.alive():
                return
            with self._locked("start.lock", deadline):
                folder = self.socket_folder()
                try:
                    self._end(signal.SIGINT, deadline)
                except Unavailable:
                    self._end(signal.SIGQUIT, time.monotonic() + 20)
                if folder.parent != self.folder:
                    with suppress(OSError):
                        folder.rmdir()

    def url(self, owner: bool = False) -> str:
        """A libpq URL for the database, as its application role or as its owner."""
        role = OWNER if owner else APP
        return (
            f"postgresql://{role}:{_percent(self._password(role))}@/{DATABASE}"
            f"?host={_percent(str(self.socket_folder()))}&port={PORT}"
        )

    def psql(self, owner: bool = False) -> tuple[Path, dict[str, str]]:
        """The wheel's psql, and the environment in which it connects to the database."""
        from eventlog.embedded.install import find

        role = OWNER if owner else APP
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {
            "PGHOST": str(self.socket_folder()),
            "PGPORT": str(PORT),
            "PGUSER": role,
            "PGPASSWORD": self._password(role),
            "PGDATABASE": DATABASE,
        }
        return find() / "bin" / "psql", environment

    def size(self) -> int:
        """Bytes that the database takes on the disk."""
        total = 0
        for folder, _, files in os.walk(self.data):
            for name in files:
                with suppress(FileNotFoundError):
                    total += Path(folder, name).lstat().st_blocks * 512
        return total

    def alive(self) -> bool:
        """Whether any process of the server lives, or one is about to start it."""
        try:
            descriptor = os.open(self.folder / "server.lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def pid(self) -> int | None:
        """The process that the pid file names, dead or alive."""
        lines = self._pid_lines()
        return int(lines[0]) if lines and lines[0].isdigit() else None

    def socket_folder(self) -> Path:
        """Where the running server has its socket, else where one would have it: inside `folder`,
        or in a short folder elsewhere if that is too long a path, or not one that clients can name."""
        inside = self.folder / "socket"
        fits = len(os.fsencode(inside / SOCKET)) <= _MAX_SOCKET_PATH and _takes_as_host(inside)
        if fits and (inside / SOCKET).exists():
            return inside
        lines = self._pid_lines()
        if len(lines) > 4 and lines[4] and self.alive():
            return Path(lines[4])
        return inside if fits else _short_folder(self.home)

    def _ready(self) -> bool:
        lines = self._pid_lines()
        return len(lines) > 7 and lines[7].strip() == "ready" and lines[0].isdigit() and _is_postgres(int(lines[0]))

    def _end(self, signal: int, deadline: float) -> None:
        pid = self.pid()
        if pid is not None and _is_postgres(pid):
            os.kill(pid, signal)
        while self.alive():
            _pause(deadline, self.log_path, "PostgreSQL is still shutting down")

    def _pid_lines(self) -> list[str]:
        try:
            return os.fsdecode(self.pid_file.read_bytes()).split("\n")
        except FileNotFoundError:
            return []

    @contextmanager
    def _locked(self, name: str, deadline: float) -> Iterator[int | None]:
        """Hold a lock, as its descriptor; None instead for `server.lock` of a server that is ready."""
        descriptor = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if name == "server.lock" and self._ready():
                        yield None
                        return
                _pause(deadline, self.folder / name, "another process is still starting or ending PostgreSQL")
            yield descriptor
        finally:
            os.close(descriptor)

    def _password(self, role: str) -> str:
        path = self.folder / f"{role}.password"
        with disk.faults(path):
            if path.exists():
                return path.read_text().strip()
            if self.data.exists():
                raise Unavailable("the database's password is gone", where=str(path), mend="put it back from a backup")
        raise Unavailable("there is no embedded database here", where=str(self.home), mend="trajlog init makes one")


def _takes_as_host(folder: Path) -> bool:
    """libpq takes a comma for a list of hosts, and psycopg only UTF-8."""
    try:
        return b"," not in str(folder).encode()
    except UnicodeEncodeError:
        return False


def _short_folder(home: Path) -> Path:
    from hashlib import sha256

    root = os.geteuid() == 0 and os.access("/run", os.W_OK)
    return Path("/run" if root else "/tmp") / f"trajlog-{sha256(os.fsencode(home)).hexdigest()[:16]}"


def _is_postgres(pid: int) -> bool:
    """Whether this process lives and is a PostgreSQL one."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True
    name, _, rest = status.partition(b"(")[2].rpartition(b")")
    return name.startswith(b"postgres") and rest.split()[0] not in (b"Z", b"X")


def _pause(deadline: float, where: Path, what: str) -> None:
    if time.monotonic() > deadline:
        raise Unavailable(what, where=str(where), mend="try again later")
    time.sleep(0.003)


def _percent(text: str) -> str:
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in os.fsencode(text))
