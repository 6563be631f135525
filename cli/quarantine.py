"""`trajlog quarantine`: the records that could not be accepted."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_json_array, print_table, print_text
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.persister.quarantine import Held, Raw
    from eventlog.reader import Reader

Numbers = Annotated[list[int], typer.Argument(metavar="N…", help="The records' numbers, as ls shows them.", min=1)]
_SHOWN = 2_000


@command(
    "trajlog quarantine ls",
    "trajlog quarantine ls --reason misrouted --since 7d",
    "trajlog quarantine ls --state all --json",
)
def ls(
    state: Annotated[str, typer.Option(metavar="STATE", help="held, retried, dropped or all.")] = "held",
    reason: Annotated[str | None, typer.Option(metavar="REASON", help="Only those held for this reason.")] = None,
    partition: Annotated[int | None, typer.Option(metavar="P", help="Only those of this partition.", min=0)] = None,
    stream: Annotated[str | None, typer.Option(metavar="STREAM", help="Only those of this stream.")] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help="Only later ones: 7d, 6h, or a date.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="How many at most.", min=1)] = 50,
    json: Json = False,
) -> None:
    """List quarantined records, the latest first.

    Reasons: not_json, missing_fields, bad_event, misrouted (key and stream, or partition, do not fit),
    id_taken, refused (wrong expected_version), too_large, null_value, not_storable.
    """
    from core.times import parse_since, to_text
    from eventlog.persister import quarantine

    if state not in (*quarantine.STATES, "all"):
        raise UsageError(f"no such state: {state!r}", where="--state", mend="use held, retried, dropped or all")
    if reason is not None and reason not in quarantine.REASONS:
        raise UsageError(
            f"no such reason: {reason!r}", where="--reason", mend=f"use one of {', '.join(quarantine.REASONS)}"
        )
    filters = quarantine.Filters(
        state=None if state == "all" else state,
        reason=reason,
        partition=partition,
        stream=stream,
        since=None if since is None else to_text(parse_since(since)),
        limit=limit,
    )
    with _connection() as connection:
        found = quarantine.ls(connection, filters)
    if json:
        print_json_array(_row(held) for held in found)
        return
    if not found:
        everything = filters._replace(limit=None) == quarantine.Filters()
        note("nothing is in quarantine" if everything else "no record matches")
        return
    print_table(
        ("N", "when", "reason", "partition", "offset", "stream", "detail"),
        [(h.id, to_text(h.quarantined_at)[:19], h.reason, h.partition, h.offset, h.stream, h.detail) for h in found],
        right=("N", "partition", "offset"),
    )


@command("trajlog quarantine show 3", "trajlog quarantine show 3 --json")
def show(
    number: Annotated[int, typer.Argument(metavar="N", help="The record's number, as ls shows it.", min=1)],
    json: Json = False,
) -> None:
    """Show a quarantined record, its bytes included.

    With --json, key, value and headers are in base64, whole.
    """
    from core.times import to_text
    from eventlog.persister import quarantine

    with _connection() as connection:
        held = quarantine.show(connection, number)
        raw = quarantine.raw(connection, number)
    row = _row(held)
    if json:
        print_json(row | {"key": raw.key, "value": raw.value, "headers": [list(header) for header in raw.headers]})
        return
    row["when"] = to_text(held.quarantined_at)
    row["why"] = quarantine.REASONS.get(held.reason, "")
    for name, value in row.items():
        if name != "quarantined_at":
            print_text(f"{name:<10} {'-' if value is None else clean(str(value))}")
    _print_bytes(raw)


@command("trajlog quarantine retry 3", "trajlog quarantine retry 3 4 5 --json")
def retry(numbers: Numbers, json: Json = False) -> None:
    """Send quarantined records through the door again.

    For records that a newer trajlog, or a mended database, can accept, and for misrouted ones: their
    events go straight into the log. What was refused for its expected_version stays refused. Each try
    is an event of its own. Exit 1 if any record is still no event.
    """
    from core.identity import uuid_text
    from eventlog.persister import quarantine
    from eventlog.watchdog import patiently

    accepted = []
    for number in numbers:
        with _reader() as reader:
            done = patiently(reader, partial(quarantine.retry, number=number))
        accepted.append(done.appended is not None)
        place = done.appended
        if json:
            print_json(
                {
                    "record": number,
                    "accepted": place is not None,
                    "event_id": None if place is None else uuid_text(place.event_id),
                    "stream": None if place is None else place.stream,
                    "version": None if place is None else place.version,
                    "position": None if place is None else place.position,
                    "why": done.why,
                }
            )
        elif place is None:
            print_text(f"{number}: still no event: {clean(done.why or '')}")
        else:
            again = ", where it was already" if place.duplicate else ""
            print_text(
                f"{number}: version {place.version} of {clean(place.stream)}, position {place.position:,}{again}"
            )
    if not all(accepted):
        raise typer.Exit(1)


@command("trajlog quarantine drop 3 --why 'a test of the load balancer'", "trajlog quarantine drop 3 4 5 --json")
def drop(
    numbers: Numbers,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, for whoever reads the log.")] = None,
    json: Json = False,
) -> None:
    """Give quarantined records up.

    They are no longer listed or counted; their bytes stay (ls --state dropped), and each leaves an
    event that says so.
    """
    from eventlog.persister import quarantine
    from eventlog.watchdog import patiently

    for number in numbers:
        with _reader() as reader:
            patiently(reader, partial(quarantine.drop, number=number, why=why))
        if json:
            print_json({"record": number, "state": "dropped"})
        else:
            print_text(f"{number}: dropped")


@contextmanager
def _reader() -> "Iterator[Reader]":
    import eventlog
    from eventlog.log import reader_of

    chosen = settings()
    with eventlog.open(chosen.db, home=chosen.home) as log:
        yield reader_of(log)


@contextmanager
def _connection() -> "Iterator[Connection]":
    with _reader() as reader, reader.borrow() as connection:
        yield connection


def _row(held: "Held") -> dict[str, Any]:
    from core.identity import uuid_text
    from core.times import to_text

    return {
        "record": held.id,
        "state": held.state,
        "reason": held.reason,
        "detail": held.detail,
        "topic_id": uuid_text(held.topic_id),
        "partition": held.partition,
        "offset": held.offset,
        "event_id": None if held.event_id is None else uuid_text(held.event_id),
        "stream": held.stream,
        "size": held.size,
        "quarantined_at": to_text(held.quarantined_at),
    }


def _print_bytes(raw: "Raw") -> None:
    pairs: Iterable[tuple[str, bytes | None]] = (
        ("key", raw.key),
        *((f"header {name}", value) for name, value in raw.headers),
        ("value", raw.value),
    )
    for name, value in pairs:
        if value is None:
            print_text(f"{clean(name):<10} -")
            continue
        text = clean(value[:_SHOWN].decode(errors="backslashreplace"))
        more = f" … {len(value) - _SHOWN:,} bytes more (--json has them)" if len(value) > _SHOWN else ""
        print_text(f"{clean(name):<10} {text}{more}")
