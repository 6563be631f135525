"""`trajlog status`: where everything stands."""

from typing import Any

from cli.frame import Json, command
from cli.output import clean, print_json, print_table, print_text
from cli.settings import settings


@command("trajlog status", "trajlog status --json")
def status(json: Json = False) -> None:
    """Show where the log, its tree and its projections stand.

    The tree is sealed in tiles of 256 events; the root covers all events either way. The lag of a
    projection is how many events it has not folded yet: reading commands fold them first.
    """
    from core.identity import uuid_text
    from eventlog.ledger import Ledger

    with settings().open() as log:
        found: dict[str, Any] = {
            "log": uuid_text(log.log_id),
            "position": log.head().position,
            "sealed": 0,
            "root": log.root().hex(),
            "db": "memory://",
            "projections": [],
        }
        if isinstance(log, Ledger):
            found |= _database(log)
    if json:
        print_json(found)
        return
    for name in ("log", "position", "sealed", "root", "db"):
        value = found[name]
        print_text(f"{name:<9} {value:,}" if isinstance(value, int) else f"{name:<9} {clean(value)}")
    print_text()
    print_table(
        ("projection", "version", "position", "lag"),
        [[p["name"], p["version"], f"{p['position']:,}", f"{p['lag']:,}"] for p in found["projections"]],
        right=("version", "position", "lag"),
    )


def _database(log: Any) -> dict[str, Any]:
    from eventlog.database import masked
    from eventlog.projection import checkpoints
    from eventlog.sealer import Tiles
    from eventlog.views import VIEWS

    with log.reader.borrow() as connection:
        tiles = Tiles(connection)
        points = checkpoints(connection, VIEWS)
        position = points[0].head
        return {
            "position": position,
            "sealed": tiles.sealed(),
            "root": tiles.root(position).hex(),
            "db": masked(log.url),
            "projections": [
                {"name": p.name, "version": p.version, "position": p.position, "lag": p.lag} for p in points
            ],
        }
