"""`trajlog lineage`: where a row comes from, and where an event went."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_text, style
from cli.releasing import Cuts, logs, need_arrow
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.log import Log
    from learners.lineage.trace import EventNode, Lineage


_ROW = re.compile(r"(.+/.+@[1-9][0-9]*)#[0-9]+", re.DOTALL)
"""A row as it is printed: it leads to where it is from the event that it begins with."""


@command(
    "trajlog lineage sft@v2#17",
    "trajlog lineage sft@v2 --limit 0 --json",
    "trajlog lineage 1f0c@14",
    "trajlog lineage @last --prov",
)
def lineage(
    name: Annotated[
        str,
        typer.Argument(
            metavar="ROW|EVENT|EPISODE|RELEASE", help="NAME@vN#I (row I, from 0), EP@N, an episode, or NAME@vN."
        ),
    ],
    limit: Annotated[int, typer.Option(min=0, help="At most so many rows of a release; 0 = all.")] = 100,
    prov: Annotated[bool, typer.Option("--prov", help="As W3C PROV-JSON.")] = False,
    cut: Cuts = None,
    json: Json = False,
) -> None:
    """Trace a row to its events, or an event to the releases that hold it.

    A row leads to the events that it rests on and these to their records in Kafka; an event or an episode to
    rows and releases. Where a commit held records that became no events, a record lies between two offsets.

    JSON: {of, kind: release|row|episode|event, releases: [{release, id, view, state, by, rows, trajlog}],
    rows: [{row, release, log, digest, events: [name], exact}], events: [{event, log, type, position, event_id,
    record: {topic, topic_id, partition, offset, first_offset, next_offset} | null}], more}.
    """
    if prov and json:
        raise UsageError("one of --json and --prov", where="lineage", mend="PROV-JSON is JSON")
    need_arrow()
    with logs(cut or []) as found:
        traced = _trace(found, name, limit)
    if prov:
        from learners.lineage.prov import document

        print_json(document(traced))
    elif json:
        print_json(traced)
    else:
        _print(traced)


def _trace(found: "list[Log]", name: str, limit: int) -> "Lineage":
    from eventlog.views.named import stream_of
    from learners.lineage import trace
    from learners.releases import naming, states

    if naming.is_release(name):
        return trace.of_release(found, naming.parse(name), limit)
    if not name.startswith("@") and "/" not in name and naming.is_name(name) and states.releases(found[0], name):
        return trace.of_release(found, naming.parse(name), limit)
    row = _ROW.fullmatch(name)
    name = row[1] if row else name
    head, _, tail = name.rpartition("@")
    version = int(tail) if head and tail.isascii() and tail.isdigit() and len(tail) < 19 else None
    return trace.of_stream(found, stream_of(found[0], name if version is None else head), version)


def _print(traced: "Lineage") -> None:
    events = {(event.log, event.event): event for event in traced.events}
    print_text(style(f"{traced.kind} {clean(traced.of)}", "bold"))
    if traced.kind in ("event", "episode"):
        for event in traced.events:
            print_text(f"  {_line(event)}")
        if not traced.releases:
            note("no release holds it")
    for release in traced.releases:
        by = f" by {clean(release.by)}" if release.by else ""
        print_text(
            f"{clean(release.release)}  {release.state}{by}, {release.rows:,} rows of {release.view}, id {release.id}"
        )
        for row in traced.rows:
            if row.release == release.release:
                print_text(f"  row {clean(row.row)}  {row.digest[:16]}")
                for name in row.events if traced.kind in ("row", "release") else ():
                    print_text(f"    {_line(events[row.log, name])}")
                if not row.exact:
                    print_text("    this trajlog has not the view any more: which events it rests on is not known")
    if traced.more:
        note(f"{traced.more:,} more rows (--limit 0)")


def _line(event: "EventNode") -> str:
    record = event.record
    if record is None:
        where = ""
    else:
        offset = f"{record.first_offset}–{record.next_offset - 1}" if record.offset is None else str(record.offset)
        where = f"  {clean(record.topic or record.topic_id)}/{record.partition}@{offset}"
    return f"{clean(event.event)}  {clean(event.type)}  position {event.position:,}{where}"
