"""Alembic's entry: runs on the connection handed over in `attributes`, or on TRAJLOG_DB for developers."""

import os

from alembic import context
from sqlalchemy import Connection, create_engine

SCHEMA = "trajlog"


def run() -> None:
    connection = context.config.attributes.get("connection")
    if connection is not None:
        migrate(connection)
        return
    url = os.environ.get("TRAJLOG_DB", "").replace("postgresql://", "postgresql+psycopg://", 1)
    with create_engine(url).begin() as connection:
        migrate(connection)


def migrate(connection: Connection) -> None:
    connection.exec_driver_sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    context.configure(connection=connection, version_table_schema=SCHEMA, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


run()
