"""`trajlog status`: where everything stands."""

from typing import TYPE_CHECKING, Any

from cli.filters import AsOf
from cli.frame import Json, command
from cli.output import clean, print_json, print_table, print_text
from cli.settings import settings

if TYPE_CHECKING:
    from eventlog.log import Log
    from eventlog.reader import Reader

_BROKER_MS = "2000"
OPEN = "open: no writer keys"


@command("trajlog status", "trajlog status --json", "trajlog status --as-of release-1")
def status(as_of: AsOf = None, json: Json = False) -> None:
    """Show where the log, its tree and its projections stand.

    The tree is sealed in tiles of 256 events; the root covers all events either way. The lag of a
    projection is how many events it has not folded yet: reading commands fold what they read first, and
    `trajlog project run` folds all.

    Where events come through Kafka, the lag is how many records `trajlog persist` has not taken yet; it is
    unknown (null) while no broker answers. Records that are no events lie in quarantine.

    JSON: {log, position, sealed, lag, quarantined, root, db, kafka, writers, partitions, projections}; `kafka`
    (the address) and `writers` are null without --log, and with --as-of so is what is known of now alone;
    partitions: [{partition, offset, position, sealed, lag, quarantined}]; projections: [{name, version,
    position, lag}].
    """
    from cli.reading import position_of
    from core.identity import uuid_text

    with settings().open() as log:
        cut = position_of(log, as_of)
        position = log.head().position if cut is None else cut
        found: dict[str, Any] = {
            "log": uuid_text(log.log_id),
            "position": position,
            "sealed": 0,
            "lag": 0 if cut is None else None,
            "quarantined": 0 if cut is None else None,
            "root": log.root(position).hex(),
            "db": "memory://",
            "kafka": None,
            "writers": None,
            "partitions": [],
            "projections": [],
        }
        if log.reader is not None:
            found |= _database(log.reader, cut)
            if cut is None:
                found |= _kafka(log, log.reader)
    if json:
        print_json(found)
        return
    through = ("kafka", "writers", "lag", "quarantined") if found["partitions"] or found["kafka"] else ()
    width = 11 if through else 9
    for name in ("log", "position", "sealed", "root", "db", *through):
        value = found[name]
        if value is None and name != "lag":
            continue
        text = f"{value:,}" if isinstance(value, int) else clean(value or f"unknown: {_why(found)}")
        print_text(f"{name:<{width}} {text}")
    print_text()
    if found["partitions"]:
        heads = ("partition", "offset", "position", "sealed", "lag", "quarantined")
        rows = [[p[head] if p[head] is None else f"{p[head]:,}" for head in heads] for p in found["partitions"]]
        print_table(heads, rows, right=heads)
        print_text()
    print_table(
        ("projection", "version", "position", "lag"),
        [[p["name"], p["version"], f"{p['position']:,}", f"{p['lag']:,}"] for p in found["projections"]],
        right=("version", "position", "lag"),
    )


def _database(reader: "Reader", cut: int | None) -> dict[str, Any]:
    from eventlog.database import masked
    from eventlog.projection import checkpoints
    from eventlog.sealer import Tiles
    from eventlog.views import VIEWS

    with reader.borrow() as connection:
        tiles = Tiles(connection)
        points = checkpoints(connection, VIEWS)
        position = points[0].head if cut is None else cut
        return {
            "position": position,
            "sealed": min(tiles.sealed(), position),
            "root": tiles.root(position).hex(),
            "db": masked(reader.url),
            "projections": [
                {
                    "name": p.name,
                    "version": p.version,
                    "position": min(p.position, position),
                    "lag": max(position - p.position, 0),
                }
                for p in points
            ],
        }


def _kafka(log: "Log", reader: "Reader") -> dict[str, Any]:
    """How far the topic was taken that feeds the ledger, also where this invocation does not name it."""
    from eventlog.kafka.log import KafkaLog
    from eventlog.persister.progress import progress

    client = address = None
    if isinstance(log, KafkaLog):
        from eventlog.kafka.client import connect

        address = log.address
        limits = {"bootstrap_timeout_ms": _BROKER_MS, "request_timeout_ms": _BROKER_MS}
        client = connect(address._replace(options={**address.options, **limits}), fast=False)
    with reader.borrow() as connection:
        partitions = progress(connection, client)
    lags = [found.lag for found in partitions if found.lag is not None]
    names = ("position", "sealed", "lag", "quarantined")
    return {
        "lag": sum(lags) if len(lags) == len(partitions) and (partitions or address is None) else None,
        "quarantined": sum(found.quarantined for found in partitions),
        "kafka": None if address is None else address.masked(),
        "writers": None if address is None else OPEN,
        "partitions": [
            {"partition": found.partition, "offset": found.next_offset} | {name: getattr(found, name) for name in names}
            for found in partitions
        ],
    }


def _why(found: dict[str, Any]) -> str:
    """Why the lag is not known."""
    if found["kafka"] is None:
        return "the broker is asked if --log names it"
    return "no broker answers" if found["partitions"] else "trajlog persist has taken nothing yet"
