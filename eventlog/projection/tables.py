"""The tables of projections: made, replaced and published by the runner alone, under its lock."""

from core.errors import SchemaMismatch
from eventlog.database import Connection
from eventlog.projection import SCHEMA, Projection, state_table, table

_SHAPE = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def prepare(connection: Connection, projection: Projection) -> None:
    """Make the projection's tables if it has no checkpoint; refuse tables of another shape."""
    key = (projection.name, projection.version)
    known = connection.execute("SELECT 1 FROM trajlog.projection WHERE name = %s AND version = %s", key).fetchone()
    if known is None:
        _create(connection, projection)
        first = connection.execute(
            "INSERT INTO trajlog.projection (name, version, position, live) SELECT %s, %s, 0, "
            "NOT EXISTS (SELECT FROM trajlog.projection WHERE name = %s AND live) RETURNING live",
            (*key, projection.name),
        ).fetchone()
        if first == (True,):
            _view(connection, projection)
        connection.execute("DELETE FROM trajlog.parked WHERE name = %s AND version = %s", key)
        return
    shape = connection.execute(_SHAPE, (table(projection),)).fetchall()
    if shape != [(column.name, _spelled(column.type)) for column in projection.columns]:
        raise SchemaMismatch(
            "its table has other columns than this fold",
            where=f"projection {projection.name} v{projection.version}",
            mend="a fold that changes its columns takes a new version",
        )


def publish(connection: Connection, projection: Projection) -> None:
    """Point the view `trajlog_view.<name>` at this version, once it has caught up with the live one."""
    key = (projection.name, projection.version)
    live, ready = connection.execute(
        "SELECT live, position >= coalesce((SELECT max(position) FROM trajlog.projection WHERE name = %s AND live), 0) "
        "FROM trajlog.projection WHERE name = %s AND version = %s",
        (projection.name, *key),
    ).fetchone() or (False, False)
    if ready and not live:
        _view(connection, projection)
        connection.execute(
            "UPDATE trajlog.projection SET live = version = %s WHERE name = %s", (projection.version, projection.name)
        )


def analyze(connection: Connection, projection: Projection) -> None:
    """Tell the planner what a bulk fold changed."""
    connection.execute(f"ANALYZE {table(projection)}, {state_table(projection)}")


def _create(connection: Connection, projection: Projection) -> None:
    rows, states = table(projection), state_table(projection)
    columns = ", ".join(f'"{name}" {_spelled(type_)}{_collation(type_)}' for name, type_ in projection.columns)
    key = ", ".join(f'"{name}"' for name in projection.key)
    connection.execute(
        f"DROP TABLE IF EXISTS {rows}, {states} CASCADE; "
        f"CREATE TABLE {rows} ({columns}, PRIMARY KEY ({key})); "
        f'CREATE TABLE {states} (stream text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, '
        "position bigint NOT NULL, state bytea NOT NULL)"
    )
    for index in projection.indexes:
        connection.execute(f"CREATE INDEX ON {rows} ({index})")


def _view(connection: Connection, projection: Projection) -> None:
    view = f'{SCHEMA}."{projection.name}"'
    connection.execute(f"DROP VIEW IF EXISTS {view}; CREATE VIEW {view} AS SELECT * FROM {table(projection)}")


def _spelled(type_: str) -> str:
    return {"timestamptz": "timestamp with time zone"}.get(type_, type_)


def _collation(type_: str) -> str:
    return ' COLLATE "C"' if type_ == "text" else ""
