"""The schema: installed and upgraded once, by whoever comes, and never half."""

import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from uuid import UUID

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.digest import segment_seal
from core.errors import SchemaMismatch, TrajlogError, Unavailable
from core.event import MAX_SEQ
from eventlog import database as databases_module
from eventlog import schema
from eventlog.ledger import Ledger
from eventlog.pack import COLUMNS
from eventlog.testing import an_event
from tests.databases import Database, Databases
from tests.examples import examples

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def query(at: Database, text: str) -> list[tuple[object, ...]]:
    with databases_module.connect(at.owner, role=None) as connection:
        return connection.execute(text).fetchall()


def test_the_code_knows_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.SCHEMA]


def test_an_upgrade_may_be_repeated(databases: Databases) -> None:
    bare = databases.bare()
    assert schema.upgrade(bare.owner) is None
    log_id = query(bare, "SELECT log_id FROM trajlog.log")
    with bare.ledger() as log:
        log.append(an_event("a"))
    assert schema.upgrade(bare.owner) == schema.SCHEMA
    assert query(bare, "SELECT log_id FROM trajlog.log") == log_id
    with bare.ledger() as log:
        assert log.head().position == 1


def test_upgrades_at_once_are_one(databases: Databases) -> None:
    bare = databases.bare()
    found: list[str | None] = []
    faults: list[BaseException] = []
    start = threading.Barrier(3)

    def work() -> None:
        start.wait()
        try:
            found.append(schema.upgrade(bare.owner))
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(found, key=str) == [schema.SCHEMA, schema.SCHEMA, None]
    assert query(bare, "SELECT count(*) FROM trajlog.log") == [(1,)]


def test_an_upgrade_that_fails_leaves_nothing(databases: Databases) -> None:
    bare = databases.bare()
    with databases_module.connect(bare.owner, role=None) as connection:
        connection.execute("CREATE SCHEMA trajlog_view")
    with pytest.raises(TrajlogError, match="trajlog_view") as caught:
        schema.upgrade(bare.owner)
    assert "\n" not in str(caught.value)
    assert query(bare, "SELECT to_regnamespace('trajlog')::text") == [(None,)]
    with pytest.raises(SchemaMismatch, match="run: trajlog init"):
        bare.ledger()


@pytest.mark.parametrize(
    ("found", "message", "mend"),
    [("0000", "older than this trajlog's", "run: trajlog db upgrade"), ("0099", "newer", "install a newer trajlog")],
)
def test_another_schema_is_one_clear_line(databases: Databases, found: str, message: str, mend: str) -> None:
    made = databases.fresh()
    with databases_module.connect(made.owner, role=None) as connection:
        connection.execute(f"UPDATE trajlog.alembic_version SET version_num = '{found}'")
    with pytest.raises(SchemaMismatch) as caught:
        made.ledger()
    line = str(caught.value)
    assert found in line
    assert message in line
    assert line.endswith(mend)
    assert "\n" not in line
    assert caught.value.exit_code == 4
    with pytest.raises(SchemaMismatch) as caught:
        schema.upgrade(made.owner)
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_password_may_hold_any_sign(databases: Databases) -> None:
    bare = databases.bare()
    password = "p%40%s%%d:/@?#[] ä'\""
    quoted = password.replace("'", "''")
    databases.execute(f"CREATE ROLE \"odd%name\" LOGIN SUPERUSER PASSWORD '{quoted}'")
    try:
        from urllib.parse import quote

        address = bare.owner.split("@/")[1]
        url = f"postgresql://{quote('odd%name', safe='')}:{quote(password, safe='')}@/{address}"
        assert schema.upgrade(url) is None
        with Ledger(url) as log:
            log.append(an_event("a"))
        with pytest.raises(Unavailable) as caught:
            Ledger(url.replace("/bare_", "/none_"))
        assert quote(password, safe="") not in str(caught.value)
        assert password not in str(caught.value)
    finally:
        databases.execute(f"DROP DATABASE {bare.name} (FORCE)", 'DROP ROLE "odd%name"')


def test_developers_may_run_alembic_itself(databases: Databases) -> None:
    bare = databases.bare()
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"],
        cwd=root,
        env=os.environ | {"TRAJLOG_DB": bare.owner, "PYTHONPATH": str(root)},
        capture_output=True,
        check=True,
    )
    assert schema.upgrade(bare.owner) == schema.SCHEMA
    with bare.ledger() as log:
        log.append(an_event("a"))


def test_the_packed_columns_are_the_tables(database: Database) -> None:
    found = query(
        database,
        "SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute "
        "WHERE attrelid = 'trajlog.event'::regclass AND attnum > 0",
    )
    assert found == [(COLUMNS,)]


def test_an_old_server_is_said(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases_module, "MINIMUM_SERVER", 990_000)
    with pytest.raises(Unavailable, match=r"is too old.*use PostgreSQL 15 or newer"):
        database.ledger()


positions = st.integers(1, MAX_SEQ)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    previous=st.none() | st.binary(min_size=32, max_size=32),
    first=positions,
    last=positions,
    topic=st.none() | st.uuids(),
    partition=st.none() | st.integers(0, 2**31 - 1),
    first_offset=st.none() | st.integers(0, MAX_SEQ),
    next_offset=st.none() | st.integers(0, MAX_SEQ),
    at=st.integers(0, 253_402_300_799_999_999),
)
def test_the_seal_in_sql_is_the_seal_in_python(
    ledger: Ledger,
    previous: bytes | None,
    first: int,
    last: int,
    topic: UUID | None,
    partition: int | None,
    first_offset: int | None,
    next_offset: int | None,
    at: int,
) -> None:
    with ledger.reader.borrow() as connection:
        row = connection.execute(
            "SELECT trajlog.segment_seal(%s, %s, %s, %s, %s, %s, %s, %s)",
            (previous, first, last, topic, partition, first_offset, next_offset, EPOCH + timedelta(microseconds=at)),
        ).fetchone()
    assert row == (
        segment_seal(
            previous=previous,
            first_position=first,
            last_position=last,
            committed_at=at,
            topic_id=topic.bytes if topic else None,
            partition=partition,
            first_offset=first_offset,
            next_offset=next_offset,
        ),
    )
