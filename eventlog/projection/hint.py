"""Waiting for new events: a notification ends the wait early, and nothing depends on one."""

from eventlog.database import Connection

CHANNEL = "trajlog"


def wait(connection: Connection, seconds: float) -> None:
    """Wait so long, or until the log says that something was committed."""
    connection.execute(f"LISTEN {CHANNEL}")
    for _ in connection.notifies(timeout=seconds, stop_after=1):
        pass
