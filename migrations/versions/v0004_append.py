"""A single append costs less: its answer is an array, a commit is notified by who closes it instead of by a
trigger, and no index by time is kept, since stamps ascend with positions."""

from importlib.resources import files

from alembic import op

revision = "0004"
down_revision = "0003"

DROP = """
DROP INDEX trajlog.segment_committed_at;
DROP TRIGGER hint ON trajlog.segment;
DROP FUNCTION trajlog.hint();
DROP FUNCTION trajlog.append_event(uuid, uuid, bigint, int, bytea, int, text, text, text, timestamptz, text, text,
    text, uuid, text, text, bytea, bigint);
"""


def upgrade() -> None:
    raw = op.get_bind().connection.driver_connection  # psycopg itself: no placeholders to escape in SQL files
    assert raw is not None
    raw.execute(DROP)
    for name in ("append_event", "close_segment"):
        raw.execute(files("migrations").joinpath("sql", f"{name}.sql").read_text())
