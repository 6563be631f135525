"""`trajlog verify`: check that the record is whole and unaltered."""

from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame import Json, command
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from core.tag import Receipt
    from eventlog.log import Log
    from eventlog.verify import Report


@command(
    "trajlog verify",
    "trajlog verify 3f2a",
    "trajlog verify --since 1200000 --json",
    "trajlog verify --receipt release-1.receipt",
)
def verify(
    stream: Annotated[
        str | None,
        typer.Argument(metavar="[EPISODE|STREAM]", help="Only this episode or stream; the whole log without."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="The whole log, as without a name.")] = False,
    since: Annotated[int, typer.Option(metavar="POSITION", min=0, help="Only events after this position.")] = 0,
    receipt: Annotated[
        str | None, typer.Option(metavar="FILE", help="A receipt that was kept elsewhere: the log must extend it.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that the record is whole and unaltered.

    Recomputes every digest, version, segment and tree tile, looks every blob up, and names each break.
    With --receipt it also proves that the log still holds all that the receipt covers, in the same order:
    without one kept elsewhere nobody can see that its end was cut off, or that all of it was written anew.
    Exit 0: whole. 1: damaged. 3: whole, but a writer's numbering has gaps (events that never arrived).
    """
    if stream is not None and (all_ or since):
        raise UsageError("verify takes a name, or --all and --since", mend="leave one of them out")
    if stream is not None and receipt is not None:
        raise UsageError("a receipt is about the whole log", where="--receipt", mend="leave the name out")
    report = _run(stream, since, receipt)
    if json:
        from cli.output import print_json

        print_json(report)
    else:
        _print(report)
    if not report.ok:
        raise typer.Exit(1)
    if report.problems:
        raise typer.Exit(3)


def _run(name: str | None, since: int, receipt: str | None) -> "Report":
    from cli.progress import Progress
    from eventlog.blobs import BlobStore
    from eventlog.log import reader_of
    from eventlog.verify import verify, verify_stream
    from eventlog.versions.commits import beyond

    chosen = settings()
    with chosen.open() as log:
        reader = reader_of(log)
        blobs = BlobStore(chosen.blobs)
        if name is not None:
            from eventlog.views.named import stream_of

            return verify_stream(reader, stream_of(log, name), blobs=blobs)
        head = log.head().position
        if since > head:
            raise beyond(str(since), head)
        kept, unknown = _receipt(log, receipt)
        with Progress("verifying", total=head - since, unit="events") as bar:
            report = verify(reader, since=since, blobs=blobs, progress=bar.advance, receipt=kept)
        report.unknowable.extend(unknown)
        return report


def _receipt(log: "Log", path: str | None) -> "tuple[Receipt | None, list[str]]":
    """The receipt at `path`, if it is one of this log; and what nobody can know of it."""
    if path is None:
        return None, []
    from eventlog.versions import receipt, tags
    from eventlog.versions.keys import Keys

    kept = receipt.load(path)
    receipt.refuse_other_log(kept, log.log_id, path)
    if kept.key in tags.trusted(log, Keys(settings().keys), [kept]):
        return kept, []
    return kept, [f"whether this log signed the receipt: nobody here vouches for the key {kept.key.hex()}"]


def _print(report: "Report") -> None:
    from cli.output import clean, print_table, print_text, style

    if report.problems:
        rows = [[p.kind, p.position, p.stream, p.version, p.detail] for p in report.problems]
        print_table(("kind", "position", "stream", "version", "detail"), rows, right=("position", "version"))
    verdict = style("whole", "green") if report.ok else style("damaged", "red")
    if report.ok and report.problems:
        verdict = style("whole, with gaps", "yellow")
    print_text(
        f"{verdict}: {report.events:,} events in {report.streams:,} streams and {report.segments:,} segments, "
        f"position {report.position:,}"
    )
    print_text(f"root {report.root}")
    for line in report.unknowable:
        print_text(f"cannot be known: {clean(line)}")
