"""Kafka: how far each partition was taken, and the records that could not be accepted."""

from importlib.resources import files

from alembic import op

revision = "0002"
down_revision = "0001"

TABLES = """
CREATE TABLE trajlog.ingest_topic (
    topic_id uuid PRIMARY KEY,
    topic text NOT NULL,
    partitions int NOT NULL CHECK (partitions > 0),
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz
);
CREATE UNIQUE INDEX ingest_topic_one ON trajlog.ingest_topic ((true)) WHERE until IS NULL;
CREATE TABLE trajlog.ingest_cursor (
    topic_id uuid NOT NULL REFERENCES trajlog.ingest_topic,
    partition int NOT NULL CHECK (partition >= 0),
    next_offset bigint NOT NULL CHECK (next_offset >= 0),
    epoch bigint NOT NULL DEFAULT 0,
    last_offset bigint CHECK (last_offset < next_offset),
    last_digest bytea CHECK (octet_length(last_digest) = 32),
    PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);
CREATE TABLE trajlog.quarantine (
    id bigint GENERATED ALWAYS AS IDENTITY CONSTRAINT quarantine_id_key PRIMARY KEY,
    topic_id uuid NOT NULL,
    partition int NOT NULL,
    offset_ bigint NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    key bytea,
    value bytea,
    headers bytea,
    reason text NOT NULL,
    detail text NOT NULL,
    event_id uuid,
    stream text,
    quarantined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    state text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'retried', 'dropped')),
    CONSTRAINT quarantine_record_key UNIQUE (topic_id, partition, offset_, digest)
);
ALTER TABLE trajlog.quarantine ALTER value SET STORAGE EXTENDED, ALTER value SET COMPRESSION pglz;
CREATE INDEX quarantine_event ON trajlog.quarantine (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX quarantine_refused ON trajlog.quarantine (event_id) WHERE reason = 'refused';
CREATE INDEX quarantine_held ON trajlog.quarantine (topic_id, partition) WHERE state = 'held';
"""
GRANTS = """
GRANT SELECT, INSERT ON trajlog.ingest_topic, trajlog.ingest_cursor, trajlog.quarantine TO trajlog_app;
GRANT UPDATE ON trajlog.ingest_cursor TO trajlog_app;
GRANT UPDATE (until) ON trajlog.ingest_topic TO trajlog_app;
GRANT UPDATE (state) ON trajlog.quarantine TO trajlog_app;
"""
APPLICATION_ROLE = "SELECT nspowner::regrole::text = 'trajlog_app' FROM pg_namespace WHERE nspname = 'trajlog_view'"


def upgrade() -> None:
    connection = op.get_bind()
    raw = connection.connection.driver_connection  # psycopg itself: no placeholders to escape in SQL files
    assert raw is not None
    raw.execute(TABLES)
    raw.execute(files("migrations").joinpath("sql", "move_cursors.sql").read_text())
    if connection.exec_driver_sql(APPLICATION_ROLE).scalar_one():
        connection.exec_driver_sql(GRANTS)
