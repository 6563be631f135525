"""The ledger: events, streams, segments, Merkle tiles, projection checkpoints, and the roles."""

import uuid
from importlib.resources import files

from alembic import op
from sqlalchemy import text
from sqlalchemy.engine import Connection

revision = "0001"
down_revision = None

IMMUTABLE = ("log", "event", "segment", "merkle")
FUNCTIONS = ("lock_key", "refuse_change", "segment_seal", "close_segment", "append_event")

TABLES = """
CREATE TABLE trajlog.log (
    log_id uuid PRIMARY KEY,
    instance_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE trajlog.event (
    position bigint CONSTRAINT event_position_key PRIMARY KEY,
    version bigint NOT NULL,
    event_id uuid NOT NULL CONSTRAINT event_event_id_key UNIQUE,
    run uuid NOT NULL,
    seq bigint NOT NULL,
    schema int NOT NULL,
    digest bytea NOT NULL CHECK (octet_length(digest) = 32),
    crc int NOT NULL,
    stream text NOT NULL,
    writer text NOT NULL,
    type text NOT NULL,
    occurred_at timestamptz,
    actor text,
    owner text,
    key_id text,
    causation_id uuid,
    correlation_id text,
    conversation text,
    body bytea NOT NULL,
    CONSTRAINT event_stream_version_key UNIQUE (stream, version)
);
CREATE TABLE trajlog.stream (
    stream text CONSTRAINT stream_stream_key PRIMARY KEY,
    version bigint NOT NULL,
    first_position bigint NOT NULL,
    last_position bigint NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE trajlog.segment (
    first_position bigint NOT NULL,
    last_position bigint CONSTRAINT segment_last_position_key PRIMARY KEY,
    topic_id uuid,
    partition int,
    first_offset bigint,
    next_offset bigint,
    committed_at timestamptz NOT NULL,
    previous bytea,
    seal bytea NOT NULL,
    CHECK (first_position <= last_position)
);
CREATE INDEX segment_committed_at ON trajlog.segment
    USING brin (committed_at) WITH (pages_per_range = 8, autosummarize = on);
CREATE TABLE trajlog.merkle (
    level smallint NOT NULL,
    index bigint NOT NULL,
    hashes bytea NOT NULL CHECK (octet_length(hashes) = 8192),
    root bytea NOT NULL,
    PRIMARY KEY (level, index)
);
ALTER TABLE trajlog.merkle ALTER hashes SET STORAGE EXTERNAL;
CREATE TABLE trajlog.projection (
    name text NOT NULL,
    version int NOT NULL,
    position bigint NOT NULL DEFAULT 0,
    seal bytea,
    live boolean NOT NULL DEFAULT false,
    PRIMARY KEY (name, version)
);
CREATE TABLE trajlog.parked (
    name text NOT NULL,
    version int NOT NULL,
    stream text NOT NULL,
    position bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (name, version, stream)
);
CREATE VIEW trajlog.event_json AS
    SELECT position, version, stream, event_id, type, schema, occurred_at, actor, writer, run, seq, owner,
           causation_id, correlation_id, conversation, convert_from(body, 'UTF8')::json AS payload
    FROM trajlog.event;
"""

MAY_BECOME = """
SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'trajlog_app' AND pg_has_role(
    oid, CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END))
"""
ROLE = f"""
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'trajlog_app') THEN
        BEGIN
            CREATE ROLE trajlog_app NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; -- another database's upgrade was first
        END;
    END IF;
    IF NOT ({MAY_BECOME.strip()}) THEN
        GRANT trajlog_app TO CURRENT_USER;
    END IF;
EXCEPTION WHEN insufficient_privilege THEN NULL;
END $$
"""
GRANTS = """
GRANT USAGE ON SCHEMA trajlog TO trajlog_app;
GRANT SELECT ON ALL TABLES IN SCHEMA trajlog TO trajlog_app;
GRANT INSERT ON trajlog.event, trajlog.segment, trajlog.merkle TO trajlog_app;
GRANT INSERT, UPDATE ON trajlog.stream TO trajlog_app;
GRANT INSERT, UPDATE, DELETE ON trajlog.projection, trajlog.parked TO trajlog_app;
GRANT CREATE ON SCHEMA trajlog_view TO trajlog_app;
"""


def upgrade() -> None:
    connection = op.get_bind()
    raw = connection.connection.driver_connection  # psycopg itself: no placeholders to escape in SQL files
    assert raw is not None
    raw.execute(TABLES)
    for name in FUNCTIONS:
        raw.execute(files("migrations").joinpath("sql", f"{name}.sql").read_text())
    for table in IMMUTABLE:
        connection.exec_driver_sql(
            f"CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON trajlog.{table} "
            "FOR EACH ROW EXECUTE FUNCTION trajlog.refuse_change();"
            f"CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON trajlog.{table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION trajlog.refuse_change()"
        )
    connection.execute(
        text("INSERT INTO trajlog.log VALUES (:log_id, :instance_id)"),
        {"log_id": uuid.uuid4(), "instance_id": uuid.uuid4()},
    )
    if _application_role(connection):
        connection.exec_driver_sql("CREATE SCHEMA trajlog_view AUTHORIZATION trajlog_app")
        connection.exec_driver_sql(GRANTS)
    else:
        connection.exec_driver_sql("CREATE SCHEMA trajlog_view")


def _application_role(connection: Connection) -> bool:
    """Make the role that runs the application and may not own or change what is immutable.

    False where this login may not create roles, or not take this one: one role owns everything then,
    and `doctor` says so.
    """
    connection.exec_driver_sql(ROLE)
    return bool(connection.exec_driver_sql(MAY_BECOME).scalar_one())
