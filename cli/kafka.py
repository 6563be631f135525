"""`trajlog kafka`: the topic behind `--log kafka://…`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, print_json, print_text, style
from cli.settings import Settings, settings
from core.errors import TrajlogError, Unavailable, UsageError

if TYPE_CHECKING:
    from eventlog.kafka.address import KafkaAddress
    from eventlog.kafka.findings import Finding
    from eventlog.kafka.standing import LedgerView

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
OPEN = "the log is open: whoever may write to the topic may append (keys for writers come in a later version)"


@command(
    "trajlog kafka init --log kafka://broker.example:9092/events",
    "trajlog kafka init --log kafka://127.0.0.1:9092/events --partitions 4 --open",
)
def init(
    partitions: Annotated[
        int | None, typer.Option("--partitions", help="How many, for ever: as many workers may share them.  [12]")
    ] = None,
    replication: Annotated[
        int | None, typer.Option("--replication", help="Copies of each.  [as many as there are brokers, up to 3]")
    ] = None,
    open: Annotated[
        bool, typer.Option("--open", help="Without keys for writers (so it is in this version anyway).")
    ] = False,
    json: Json = False,
) -> None:
    """Create the topic of the log, with the settings that it needs.

    Done again, it changes nothing. A topic that is there with other settings is left alone, and named (exit 2).

    JSON: {log, topic, id, partitions, replication, created, open, settings}; `created` is false if it was there.
    """
    from uuid import UUID

    from eventlog.kafka import topic
    from eventlog.kafka.client import connect
    from eventlog.kafka.findings import plural

    address = _address(settings())
    admin = connect(address).admin()
    try:
        made = topic.create(admin, address, partitions=partitions, replication=replication)
    finally:
        admin.close()
    found = made.topic
    if json:
        print_json(
            {
                "log": address.place,
                "topic": found.name,
                "id": str(UUID(bytes=found.id)),
                "partitions": found.partitions,
                "replication": found.replication,
                "created": made.created,
                "open": True,
                "settings": made.settings,
            }
        )
        return
    sizes = f"{plural(found.partitions, 'partition')}, {plural(found.replication, 'replica')}"
    print_text(f"topic {found.name} {'created' if made.created else 'is there'}: {sizes}")
    print_text(OPEN)


@command("trajlog kafka check", "trajlog kafka check --json --log kafka://broker.example:9092/events")
def check(json: Json = False) -> None:
    """Say what is wrong with the settings of topic and broker.

    Exit 1 if a promise of the log is broken (fail), 4 if no broker answers or the login is refused. With a
    database (--db, or one in the data folder) the topic is compared with what the ledger has taken from it.

    JSON: {ok, log, topic, findings, rebuild, open}. `topic` is null or {name, id, partitions, replication}; a
    finding is {name, status, what, why, mend}, status ok, warn or fail; `rebuild` is {complete, what}: whether the
    ledger could be made anew from Kafka alone.
    """
    from uuid import UUID

    from eventlog.kafka.client import connect
    from eventlog.kafka.findings import Finding, judge, rebuild
    from eventlog.kafka.standing import look

    chosen = settings()
    address = _address(chosen)
    ledger, trouble = _ledger(chosen)
    standing, code = None, 0
    try:
        admin = connect(address).admin()
        try:
            standing = look(admin, address, ledger)
        finally:
            admin.close()
        findings = judge(standing)
    except Unavailable as error:
        findings, code = [Finding("broker", "fail", error.what, "nothing can be appended or taken", error.mend)], 4
    findings += trouble
    failed = any(finding.status == "fail" for finding in findings)
    can = rebuild(standing) if standing else None
    if json:
        topic = standing.topic if standing else None
        print_json(
            {
                "ok": not failed,
                "log": address.masked(),
                "topic": topic
                and {
                    "name": topic.name,
                    "id": str(UUID(bytes=topic.id)),
                    "partitions": topic.partitions,
                    "replication": topic.replication,
                },
                "findings": [finding._asdict() for finding in findings],
                "rebuild": can and can._asdict(),
                "open": True,
            }
        )
    else:
        _show(findings)
        if can:
            print_text(f"rebuild from Kafka alone: {clean(can.what)}")
        print_text(OPEN)
    if failed:
        raise typer.Exit(code or 1)


def _show(findings: "list[Finding]") -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        status = style(f"{finding.status:<4}", COLOURS[finding.status])
        print_text(f"{status}  {finding.name:<{width}}  {clean(finding.what)}")
        for line in (finding.why, finding.mend):
            if line:
                print_text(f"{'':<{width + 8}}{clean(line)}")


def _address(chosen: Settings) -> "KafkaAddress":
    from eventlog.kafka.address import KafkaAddress

    if chosen.log is None:
        raise UsageError("names no log", where="--log", mend="give --log kafka://host:9092/topic, or set TRAJLOG_LOG")
    return KafkaAddress.parse(chosen.log, chosen.kafka)


def _ledger(chosen: Settings) -> "tuple[LedgerView | None, list[Any]]":
    """What the ledger has of its topic, if there is one and it has taken anything, and why it could not be asked."""
    from eventlog import database, schema
    from eventlog.kafka.findings import Finding
    from eventlog.kafka.standing import LedgerView
    from eventlog.persister.source import cursors, source

    url = _url(chosen)
    if url is None:
        return None, []
    try:
        with database.connect(url) as connection, database.translated(url):
            if schema.version(connection) != schema.SCHEMA:
                raise schema.mismatch(schema.version(connection), database.masked(url))
            found = source(connection)
            if found is None:
                return None, [Finding("ledger", "ok", "has taken nothing from Kafka yet")]
            return LedgerView(found, cursors(connection, found.topic_id)), []
    except TrajlogError as error:
        why = "the topic could not be compared with what was taken from it"
        return None, [Finding("ledger", "warn", error.what, why, error.mend)]


def _url(chosen: Settings) -> str | None:
    """The database that is there already; none is started just to be looked at."""
    if chosen.db is not None:
        return None if chosen.db == "memory://" else chosen.db
    from eventlog.embedded import Embedded

    embedded = Embedded(chosen.home)
    if not (embedded.data / "PG_VERSION").exists():
        return None
    embedded.start()
    return embedded.url()
