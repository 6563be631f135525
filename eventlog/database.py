"""Connections to Postgres, and its errors as ours.

The application works as the role `trajlog_app`, which may add events but neither change nor own
them; a login that is a member of that role is switched to it at once.
"""

import select
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, LiteralString, cast

import psycopg
import psycopg.waiting
from psycopg import errors
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from core.errors import DiskFull, TrajlogError, Unavailable, UsageError
from core.times import IN_2000

ROLE = "trajlog_app"
MINIMUM_SERVER = 150_000

Meanwhile = Callable[[], bool]
"""Does a little other work; False when there is none. It keeps its errors to itself; an interrupt may pass."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection on which `meanwhile`, where it is set, is done while the server is at work."""

    meanwhile: Meanwhile | None = None
    _repeated: psycopg.Cursor[tuple[Any, ...]] | None = None

    def repeat(self, query: LiteralString, parameters: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The first row of a statement that is run over and over: prepared, and on one cursor."""
        if self._repeated is None:
            self._repeated = self.cursor()
        return self._repeated.execute(query, parameters, prepare=True).fetchone()

    def wait(self, gen: Any, *limits: Any, **named: Any) -> Any:
        patient: Any = gen if self.meanwhile is None else _Patient(gen, self)
        return super().wait(patient, *limits, **named)


class _Patient:
    """An operation of psycopg's on a connection, which waits for the socket by doing something else."""

    def __init__(self, operation: Any, connection: Connection) -> None:
        self._operation = operation
        self._connection = connection

    def __iter__(self) -> "_Patient":
        return self

    def __next__(self) -> int:
        return self._until_ready(next(self._operation))

    def send(self, ready: int) -> int:
        return self._until_ready(self._operation.send(ready))

    def _until_ready(self, wanted: int) -> int:
        meanwhile = self._connection.meanwhile
        if meanwhile is not None:
            poll = select.poll()
            poll.register(
                self._connection.fileno(),
                (select.POLLIN if wanted & _READ else 0) | (select.POLLOUT if wanted & _WRITE else 0),
            )
            while not poll.poll(0) and meanwhile():
                pass
        return wanted


_READ, _WRITE = psycopg.waiting.Wait.R, psycopg.waiting.Wait.W

Buffer = bytes | bytearray | memoryview

_BECOME = """
SELECT set_config('role', rolname, false) FROM pg_roles
WHERE rolname = %s AND has_schema_privilege(oid, to_regnamespace('trajlog'), 'USAGE') IS NOT FALSE
  AND pg_has_role(oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END)
"""


class _Microseconds(Loader):
    """timestamptz as µs since 1970, for every year the ledger may hold."""

    format = psycopg.pq.Format.BINARY

    def load(self, data: Buffer) -> int:
        return int.from_bytes(data, "big", signed=True) + IN_2000


_INT8 = cast(type[Loader], psycopg.adapters.get_loader(psycopg.adapters.types["int8"].oid, psycopg.pq.Format.BINARY))


def cursor(connection: Connection, name: str = "") -> psycopg.Cursor[tuple[Any, ...]]:
    """A cursor, the server's own if it has a name, that reads in binary, and a timestamptz as Postgres has it:
    µs since 2000 (`core.times.IN_2000`). That takes a tenth of the time."""
    made = connection.cursor(name, binary=True) if name else connection.cursor(binary=True)
    made.adapters.register_loader("timestamptz", _INT8)
    return made


class Uuids(list[bytes]):
    """UUIDs of 16 bytes each, as a parameter: `= ANY(%s)`."""


class _UuidsDumper(Dumper):
    format = psycopg.pq.Format.BINARY
    oid = psycopg.adapters.types["uuid"].array_oid

    def dump(self, obj: Uuids) -> Buffer:
        head = struct.pack(">iiiii", 1, 0, psycopg.adapters.types["uuid"].oid, len(obj), 1)
        return head + b"".join([b"\0\0\0\x10" + each for each in obj])


psycopg.adapters.register_dumper(Uuids, _UuidsDumper)


def connect(url: str, *, role: str | None = ROLE, autocommit: bool = True, timeout: int = 10) -> Connection:
    """Connect as `role` where the login may take it; `UsageError` for a malformed URL, `Unavailable`
    where the server cannot be used. Read with `binary=True`, a timestamptz is µs since 1970."""
    try:
        params = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise UsageError(
            f"not a Postgres URL: {_line(error)}", where="--db", mend="use postgresql://user@host/name"
        ) from None
    params.setdefault("connect_timeout", timeout)
    params.setdefault("application_name", "trajlog")
    path = "-c search_path=trajlog,trajlog_view,public" if role else ""
    params["options"] = f"{params.get('options') or ''} -c timezone=UTC -c client_encoding=UTF8 {path}".strip()
    with translated(url):
        connection = Connection.connect(make_conninfo("", **params), autocommit=autocommit)
        connection.adapters.register_loader("timestamptz", _Microseconds)
        if role and connection.info.user != role:
            connection.execute(_BECOME, (role,))
            if not autocommit:
                connection.commit()
    if connection.info.server_version < MINIMUM_SERVER:
        found = connection.info.server_version // 10_000
        connection.close()
        raise Unavailable(f"PostgreSQL {found} is too old", where=masked(url), mend="use PostgreSQL 15 or newer")
    return connection


def masked(url: str) -> str:
    """The URL without its password, for people."""
    try:
        params = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "--db"
    params = {k: v for k, v in params.items() if k in ("user", "host", "port", "dbname") and v is not None}
    host = str(params.get("host", ""))
    at = f"{params['user']}@" if params.get("user") else ""
    port = f":{params['port']}" if params.get("port") else ""
    if host.startswith("/"):
        return f"postgresql://{at}/{params.get('dbname', '')}?host={host}"
    return f"postgresql://{at}{host}{port}/{params.get('dbname', '')}"


@contextmanager
def doing(connection: Connection, meanwhile: Meanwhile | None) -> Iterator[None]:
    """Within the block, whenever the server is waited for, something else is done."""
    connection.meanwhile = meanwhile
    try:
        yield
    finally:
        connection.meanwhile = None


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Run a block; a psycopg error inside becomes one of ours that names the database."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, masked(url)) from error


def translate(error: psycopg.Error, where: str) -> TrajlogError:
    """The one line for what Postgres or its client said."""
    message = _line(error)
    if isinstance(error, errors.DiskFull) or "No space left on device" in message:
        return DiskFull("the database's disk is full", where=where, mend="free some space; nothing was half-written")
    if isinstance(error, errors.InvalidPassword) or "password authentication failed" in message:
        return Unavailable("wrong password or user", where=where, mend="correct the login in --db or TRAJLOG_DB")
    if "no password supplied" in message:
        return Unavailable("the login needs a password", where=where, mend="give it in --db, TRAJLOG_DB or PGPASSWORD")
    if isinstance(error, errors.InsufficientPrivilege):
        return Unavailable(message, where=where, mend="grant trajlog_app to this login, or use the owner's")
    if "does not exist" in message and "database" in message:
        return Unavailable(message, where=where, mend="create it, or correct --db")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return Unavailable("this database is read-only", where=where, mend="use the primary server")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Unavailable(
            f"the database cannot be used: {message}",
            where=where,
            mend="see that it runs and try again (trajlog doctor)",
        )
    return Unavailable(f"the database refused: {message}", where=where, mend="trajlog doctor may say why")


def _line(error: Exception) -> str:
    """The message on one line; of several connection attempts, the last."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    text = next((line for line in lines if "FATAL" in line), lines[0])
    return text.split("FATAL:")[-1].strip().removeprefix("- ")
