"""The tables of projections: made, replaced and published by the runner alone, under its lock."""

from collections.abc import Sequence

from core.errors import SchemaMismatch, TrajlogError
from eventlog.database import Connection
from eventlog.projection import (
    SCHEMA,
    AnyProjection,
    Column,
    View,
    beside_table,
    checkpoints,
    is_second,
    sources,
    table,
)
from eventlog.projection.trust import refuse_another_log

NEW = "/new"
"""Ends the name that a projection has while it is rebuilt beside the one that is read."""

OLD = "/old"
"""Ends the name of what a rebuild took the place of: it is kept until the next."""

_SHAPE = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_KEY = """
SELECT a.attname FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k (attnum, n)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass(%s) AND i.indisprimary ORDER BY k.n
"""
_KNOWN = "SELECT 1 FROM trajlog.projection WHERE name = %s AND version = %s"
_FIRST = """
INSERT INTO trajlog.projection (name, version, position, live)
SELECT %s, %s, 0, %s AND NOT EXISTS (SELECT FROM trajlog.projection WHERE name = %s AND live) RETURNING live
"""
_READY = """
SELECT live, position >= coalesce((SELECT max(position) FROM trajlog.projection WHERE name = %s AND live), 0),
       (SELECT version FROM trajlog.projection WHERE name = %s AND live)
FROM trajlog.projection WHERE name = %s AND version = %s
"""
_OUTLIVED = """
SELECT name, version FROM trajlog.projection
WHERE version < %s AND split_part(name, '/', 1) = %s AND (version <> %s OR name LIKE '%%/%%')
"""
_GRANTS = """
SELECT format('GRANT %%s ON %%s TO %%s%%s', a.privilege_type, c.oid::regclass,
              CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
              CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
WHERE c.oid = to_regclass(%s) AND a.grantee <> c.relowner
"""


def prepare(connection: Connection, projection: AnyProjection) -> None:
    """Make the projection's tables if it has no checkpoint; refuse tables of another shape."""
    key = (projection.name, projection.version)
    if connection.execute(_KNOWN, key).fetchone() is not None:
        check(connection, projection)
        return
    create(connection, projection)
    first = connection.execute(_FIRST, (*key, not _is_beside(projection), projection.name)).fetchone()
    if first == (True,):
        _view(connection, projection)
    connection.execute("DELETE FROM trajlog.parked WHERE name = %s AND version = %s", key)
    connection.execute("DELETE FROM trajlog.shard WHERE name = %s AND version = %s", key)


def check(connection: Connection, projection: AnyProjection) -> None:
    """`SchemaMismatch` where the table has other columns, or another key, than this fold."""
    if not fits(connection, projection):
        raise SchemaMismatch(
            "its table has other columns, or another key, than this fold",
            where=f"projection {projection.name} v{projection.version}",
            mend="a fold that changes its table takes a new version",
        )


def sound(
    connection: Connection, projections: Sequence[AnyProjection]
) -> tuple[list[AnyProjection], list[TrajlogError]]:
    """Those that can be folded, and what is wrong with the others: another shape, another log, or a source
    with which something is wrong."""
    good: list[AnyProjection] = []
    errors: list[TrajlogError] = []
    bad: set[str] = set()
    for projection, point in zip(projections, checkpoints(connection, projections), strict=True):
        try:
            refuse_another_log(point)
            check(connection, projection)
            if bad.isdisjoint(source.name for source in sources(projection)):
                good.append(projection)
                continue
        except TrajlogError as error:
            errors.append(error)
        bad.add(projection.name)
    return good, errors


def fits(connection: Connection, projection: AnyProjection) -> bool:
    """Whether the table is as this fold says; one that was never made is."""
    shape = connection.execute(_SHAPE, (table(projection),)).fetchall()
    key = [name for (name,) in connection.execute(_KEY, (table(projection),))]
    wanted = [(column.name, _spelled(column.type)) for column in projection.columns]
    return not shape or (shape == wanted and key == list(projection.key))


def publish(connection: Connection, projection: AnyProjection) -> None:
    """Point the view `trajlog_view.<name>` at this version, once it has caught up with the live one. The
    version before is kept, older ones are dropped."""
    if _is_beside(projection):
        return
    key = (projection.name, projection.version)
    live, ready, before = connection.execute(_READY, (projection.name, projection.name, *key)).fetchone() or (0, 0, 0)
    if live or not ready:
        return
    _view(connection, projection)
    connection.execute(
        "UPDATE trajlog.projection SET live = version = %s WHERE name = %s", (projection.version, projection.name)
    )
    for name, version in connection.execute(_OUTLIVED, (projection.version, projection.name, before)).fetchall():
        drop(connection, name, version)


def flip(connection: Connection, projection: AnyProjection) -> None:
    """Put what was built beside in the place of what is read; that is kept as the old one. Grants and the
    checkpoint go with it. The caller holds the lock of both."""
    name, version = projection.name, projection.version
    new = _renamed(projection, NEW)
    old = _renamed(projection, OLD)
    drop(connection, old.name, version)
    granted = [grant for (grant,) in connection.execute(_GRANTS, (table(projection),))]
    own = _renamed(projection, "")
    for now, then in ((own, old), (new, own)):
        for relation, called in ((table(now), table(then)), (_beside(now, projection), _beside(then, projection))):
            bare = called.removeprefix(f"{SCHEMA}.")
            connection.execute(f"ALTER TABLE IF EXISTS {relation} RENAME TO {bare}")
    for grant in granted:
        connection.execute(grant)
    (live,) = connection.execute(
        "SELECT live FROM trajlog.projection WHERE name = %s AND version = %s", (name, version)
    ).fetchone() or (True,)
    for before, after in ((name, old.name), (new.name, name)):
        for relation in ("projection", "parked"):
            query = f"UPDATE trajlog.{relation} SET name = %s WHERE name = %s AND version = %s"
            connection.execute(query, (after, before, version))
    connection.execute("UPDATE trajlog.projection SET live = false WHERE name = %s", (old.name,))
    connection.execute(
        "UPDATE trajlog.projection SET live = %s WHERE name = %s AND version = %s", (live, name, version)
    )
    connection.execute("DELETE FROM trajlog.shard WHERE name = %s AND version = %s", (name, version))
    if live:
        _view(connection, projection)


def drop(connection: Connection, name: str, version: int) -> None:
    """Drop a projection's tables and all that is known of it."""
    head = f'{SCHEMA}."{name}__v{version}'
    connection.execute(f'DROP TABLE IF EXISTS {head}", {head}__state", {head}__keys" CASCADE')
    for relation in ("projection", "parked", "shard"):
        query = f"DELETE FROM trajlog.{relation} WHERE name = %s AND version = %s"
        connection.execute(query, (name, version))


def analyze(connection: Connection, projection: AnyProjection) -> None:
    """Tell the planner what a bulk fold changed."""
    connection.execute(f"ANALYZE {table(projection)}, {beside_table(projection)}")


def create(connection: Connection, projection: AnyProjection) -> None:
    """Make the tables anew."""
    rows, beside = table(projection), beside_table(projection)
    key = ", ".join(f'"{name}"' for name in projection.key)
    connection.execute(
        f"DROP TABLE IF EXISTS {rows}, {beside} CASCADE; "
        f"CREATE TABLE {rows} ({definition(projection.columns)}, PRIMARY KEY ({key}))"
    )
    if is_second(projection):
        columns = {column.name: column for column in projection.columns}
        keys = [Column("stream"), *[columns[name]._replace(name=f"key_{name}") for name in projection.key]]
        names = ", ".join(f'"{column.name}"' for column in keys)
        connection.execute(f"CREATE TABLE {beside} ({definition(keys)}, PRIMARY KEY ({names}))")
    else:
        connection.execute(
            f'CREATE TABLE {beside} (stream text COLLATE "C" PRIMARY KEY, version bigint NOT NULL, '
            "position bigint NOT NULL, state bytea NOT NULL)"
        )
    for index in projection.indexes:
        connection.execute(f"CREATE INDEX ON {rows} ({index})")


def definition(columns: Sequence[Column]) -> str:
    """The columns as CREATE TABLE has them."""
    return ", ".join(f'"{name}" {_spelled(type_)}{_collation(type_)}' for name, type_ in columns)


def _view(connection: Connection, projection: AnyProjection) -> None:
    """The view of the projection's name, of this version; who could read the last one can read it."""
    view = f'{SCHEMA}."{projection.name}"'
    granted = [grant for (grant,) in connection.execute(_GRANTS, (view,))]
    connection.execute(f"DROP VIEW IF EXISTS {view}; CREATE VIEW {view} AS SELECT * FROM {table(projection)}")
    for grant in granted:
        connection.execute(grant)


def _renamed(projection: AnyProjection, suffix: str) -> View:
    return View(projection.name + suffix, projection.version)


def _beside(named: View, projection: AnyProjection) -> str:
    return f'{SCHEMA}."{named.name}__v{named.version}__{"keys" if is_second(projection) else "state"}"'


def _is_beside(projection: AnyProjection) -> bool:
    return "/" in projection.name


def _spelled(type_: str) -> str:
    return {"timestamptz": "timestamp with time zone"}.get(type_, type_)


def _collation(type_: str) -> str:
    return ' COLLATE "C"' if type_ == "text" else ""
