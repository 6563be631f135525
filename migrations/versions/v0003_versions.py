"""Versions: tags, what the projection runner keeps, and what is in releases."""

from importlib.resources import files

from alembic import op

revision = "0003"
down_revision = "0002"

TAG = """
CREATE TABLE trajlog.tag (
    name text CONSTRAINT tag_name_key PRIMARY KEY,
    log_id uuid NOT NULL,
    instance_id uuid NOT NULL,
    position bigint NOT NULL CHECK (position > 0),
    root bytea NOT NULL CHECK (octet_length(root) = 32),
    seal bytea,
    offsets bytea,
    created_at timestamptz NOT NULL,
    why text,
    key bytea NOT NULL CHECK (octet_length(key) = 32),
    signature bytea NOT NULL CHECK (octet_length(signature) = 64)
);
CREATE INDEX tag_position ON trajlog.tag (position);
CREATE INDEX segment_source ON trajlog.segment (topic_id, partition, last_position) WHERE topic_id IS NOT NULL;
CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON trajlog.tag
    FOR EACH ROW EXECUTE FUNCTION trajlog.refuse_change();
CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON trajlog.tag
    FOR EACH STATEMENT EXECUTE FUNCTION trajlog.refuse_change();
"""
TAG_GRANTS = "GRANT SELECT, INSERT ON trajlog.tag TO trajlog_app"
PROJECTIONS = """
ALTER TABLE trajlog.projection ADD sources text;
CREATE TABLE trajlog.shard (
    name text NOT NULL,
    version int NOT NULL,
    shard int NOT NULL,
    position bigint NOT NULL,
    seal bytea,
    PRIMARY KEY (name, version, shard)
);
CREATE FUNCTION trajlog.hint() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('trajlog', NEW.last_position::text);
    RETURN NULL;
END $$;
CREATE TRIGGER hint AFTER INSERT ON trajlog.segment FOR EACH ROW
    WHEN (NEW.last_position > NEW.first_position) EXECUTE FUNCTION trajlog.hint();
"""
PROJECTION_GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON trajlog.shard TO trajlog_app;
DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO trajlog_app', current_database()); END $$;
"""
APPLICATION_ROLE = "SELECT nspowner::regrole::text = 'trajlog_app' FROM pg_namespace WHERE nspname = 'trajlog_view'"
RELEASES = """
CREATE TABLE trajlog.release (
    name text NOT NULL,
    version int NOT NULL CHECK (version > 0),
    release_id bytea NOT NULL CHECK (octet_length(release_id) = 32),
    rows bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (name, version),
    UNIQUE (name, release_id)
);
CREATE TABLE trajlog.release_row (
    name text NOT NULL,
    version int NOT NULL,
    log_id uuid NOT NULL,
    stream text COLLATE "C" NOT NULL,
    row_version bigint NOT NULL,
    row bigint NOT NULL,
    digest bytea CHECK (octet_length(digest) = 32),
    sources text[],
    PRIMARY KEY (name, log_id, stream, row_version, row, version),
    FOREIGN KEY (name, version) REFERENCES trajlog.release
);
CREATE INDEX release_row_stream ON trajlog.release_row (stream);
CREATE INDEX release_row_sources ON trajlog.release_row USING gin (sources) WHERE sources IS NOT NULL;
"""
RELEASE_TRIGGERS = """
CREATE TRIGGER held_out AFTER INSERT ON trajlog.release_row REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION trajlog.refuse_held_out();
"""
RELEASE_GRANTS = "GRANT SELECT, INSERT ON trajlog.release, trajlog.release_row TO trajlog_app"


def upgrade() -> None:
    _tags()
    _projections()
    _releases()


def _tags() -> None:
    connection = op.get_bind()
    connection.exec_driver_sql(TAG)
    if connection.exec_driver_sql(APPLICATION_ROLE).scalar_one():
        connection.exec_driver_sql(TAG_GRANTS)


def _projections() -> None:
    """`sources` are those that a second stage is made from; a shard is the part of a projection that one
    process folds. A commit of several events is notified; single ones, where it would be felt, are polled for."""
    raw = op.get_bind().connection.driver_connection  # psycopg itself: no placeholders to escape
    assert raw is not None
    raw.execute(PROJECTIONS)
    if raw.execute(APPLICATION_ROLE).fetchone()[0]:
        raw.execute(PROJECTION_GRANTS)


def _releases() -> None:
    """`release_row` holds what each version of a name added to the one before (`digest`) and took out of it
    (no digest). `sources` are a row's streams where they are not its own."""
    raw = op.get_bind().connection.driver_connection
    assert raw is not None
    raw.execute(RELEASES)
    for name in ("held_out", "refuse_held_out"):
        raw.execute(files("migrations").joinpath("sql", f"{name}.sql").read_text())
    raw.execute(RELEASE_TRIGGERS)
    for table in ("release", "release_row"):
        raw.execute(
            f"CREATE TRIGGER immutable BEFORE UPDATE OR DELETE ON trajlog.{table} "
            "FOR EACH ROW EXECUTE FUNCTION trajlog.refuse_change();"
            f"CREATE TRIGGER immutable_truncate BEFORE TRUNCATE ON trajlog.{table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION trajlog.refuse_change()"
        )
    if raw.execute(APPLICATION_ROLE).fetchone()[0]:
        raw.execute(RELEASE_GRANTS)
