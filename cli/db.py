"""`trajlog db`: the database that holds the log."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_table, print_text
from cli.settings import mask, settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.embedded import Embedded

Owner = Annotated[bool, typer.Option("--owner", help="As the owner of the tables, not as the application.")]


@command("trajlog db url", 'psql "$(trajlog db url)"')
def url(owner: Owner = False, json: Json = False) -> None:
    """Print the URL of the database.

    It holds the password: whoever has it can use the database.
    """
    chosen = settings()
    if chosen.db is None:
        from eventlog.embedded import Embedded

        found = Embedded(chosen.home).url(owner)
    else:
        found = chosen.db
    if json:
        print_json({"url": found})
    else:
        print_text(clean(found))


@command("trajlog db psql", "trajlog db psql -- -c 'SELECT count(*) FROM trajlog.event'")
def psql(
    arguments: Annotated[list[str] | None, typer.Argument(help="Arguments of psql, after --.")] = None,
    owner: Owner = False,
) -> None:
    """Open the database in psql.

    The program of the embedded server is used, also with --db.
    """
    import sys

    from eventlog.embedded import Embedded
    from eventlog.embedded.install import find

    chosen = settings()
    if chosen.db is None:
        server = Embedded(chosen.home)
        server.start()
        program, environment = server.psql(owner)
    else:
        program, environment = find() / "bin" / "psql", {**os.environ, **_environment(chosen.db)}
    sys.stdout.flush()
    os.execve(program, ["psql", *(arguments or [])], environment)


@command("trajlog db start")
def start() -> None:
    """Start the embedded database.

    Every command that needs it starts it too; it runs on until `trajlog db stop`.
    """
    server = _embedded("start")
    server.start()
    note(f"the database in {server.home} is running")


@command("trajlog db stop")
def stop() -> None:
    """Stop the embedded database."""
    server = _embedded("stop")
    was_running = server.running()
    server.stop()
    note(f"the database in {server.home} {'has stopped' if was_running else 'was not running'}")


@command("trajlog db upgrade", "trajlog db upgrade --db postgresql://owner@db.example/trajlog")
def upgrade(json: Json = False) -> None:
    """Bring the schema of the database up to date."""
    from eventlog import schema

    chosen = settings()
    if chosen.db is None:
        server = _embedded("upgrade")
        server.start()
        target = server.url(owner=True)
    else:
        target = chosen.db
    found = schema.upgrade(target)
    if json:
        print_json({"schema": schema.SCHEMA, "previous": found})
    elif found == schema.SCHEMA:
        print_text(f"schema {found} is up to date")
    else:
        print_text(f"schema {found or 'none'} brought to {schema.SCHEMA}")


@command(
    "trajlog db restored",
    "trajlog db restored --replace",
    "trajlog db restored --db postgresql://owner@staging.example/trajlog",
)
def restored(
    replace: Annotated[
        bool, typer.Option("--replace", help="It takes the original's place, which is gone: keep the instance id.")
    ] = False,
    json: Json = False,
) -> None:
    """Tell a database that was restored from a backup that it is one.

    The log keeps its id for ever. A copy that runs beside the original becomes an instance of its own:
    it signs with a key of its own, and takes no records from Kafka in the original's place. With
    --replace nothing changes. Run it as the owner of the tables, before anything else uses the copy.

    JSON: {log, instance, previous}.
    """
    from core.identity import uuid_text
    from eventlog import restored

    chosen = settings()
    if chosen.db is None:
        server = _embedded("mark")
        server.start()
        target = server.url(owner=True)
    else:
        target = chosen.db
    found = restored.keep(target) if replace else restored.renew(target)
    if json:
        print_json({name: uuid_text(value) for name, value in found._asdict().items()})
    elif replace:
        print_text(f"instance {uuid_text(found.instance)}, as before")
    else:
        print_text(f"instance {uuid_text(found.instance)}, a copy of {uuid_text(found.previous)}")


_SIZES = """
    SELECT n.nspname || '.' || c.relname, nullif(c.reltuples, -1)::bigint,
           pg_table_size(c.oid), pg_indexes_size(c.oid)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('trajlog', 'trajlog_view') AND c.relkind IN ('r', 'm')
    ORDER BY pg_total_relation_size(c.oid) DESC, 1"""


@command("trajlog db size", "trajlog db size --json")
def size(json: Json = False) -> None:
    """Show how much space the log takes.

    Rows are the database's own estimate, null where it has none yet.
    """
    from eventlog import database

    chosen = settings()
    if chosen.db is None:
        server = _embedded("size")
        server.start()
        target, where = server.url(), str(chosen.home)
        disk: int | None = server.size()
    else:
        target, where, disk = chosen.db, mask(chosen.db), None
    with database.connect(target) as connection, database.translated(target):
        tables = connection.execute(_SIZES).fetchall()
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    total = row[0] if row else 0
    if json:
        names = ("table", "rows", "bytes", "index_bytes")
        print_json(
            {"db": where, "bytes": total, "disk": disk, "tables": [dict(zip(names, t, strict=True)) for t in tables]}
        )
        return
    print_table(
        ("table", "rows", "data", "indexes"),
        [
            (name, None if rows is None else f"~{rows:,}", megabytes(data), megabytes(indexes))
            for name, rows, data, indexes in tables
        ],
        right=("rows", "data", "indexes"),
    )
    print_text(
        f"database {megabytes(total)}" + ("" if disk is None else f", on the disk with its journal {megabytes(disk)}")
    )


def megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.1f} MB"


def _embedded(verb: str) -> "Embedded":
    from eventlog.embedded import Embedded

    chosen = settings()
    if chosen.db is not None:
        raise UsageError(
            f"trajlog cannot {verb} a database that it does not run itself",
            where=mask(chosen.db),
            mend="leave out --db and TRAJLOG_DB, or ask whoever runs it",
        )
    return Embedded(chosen.home)


def _environment(url: str) -> dict[str, str]:
    """The connection as libpq's environment, so that no password stands in the process list."""
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict
    from psycopg.pq import Conninfo

    try:
        given = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise UsageError(f"not a Postgres URL: {error}", where="--db") from None
    variables = {option.keyword.decode(): option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar}
    return {variables[name]: str(value) for name, value in given.items() if value is not None and name in variables}
