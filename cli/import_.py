"""`trajlog import`: bring in episodes that other tools recorded."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cli.frame import Json, command
from cli.settings import settings

if TYPE_CHECKING:
    from eventlog.interchange import Source
    from eventlog.interchange.importer import Report


@command(
    "trajlog import results.json",
    "trajlog import runs/ 'more/*.jsonl' --split dev",
    "gunzip -c results.json.gz | trajlog import - --json",
)
def import_(
    sources: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, folders, quoted globs, or - for stdin.")
    ],
    format: Annotated[
        str | None, typer.Option(metavar="NAME", help="The format, if it is not to be found out.")
    ] = None,
    split: Annotated[
        Literal["train", "dev", "audit", "final"], typer.Option(help="What the episodes may be used for.")
    ] = "train",
    strict: Annotated[
        bool, typer.Option("--strict/--lenient", help="Reject what breaks the rules of its format (ATIF).")
    ] = False,
    json: Json = False,
) -> None:
    """Import recorded episodes from files, folders or stdin.

    Every episode comes whole or not at all, and once: what is in the log already is left alone, so an
    import that was interrupted is completed by running it again. A record that cannot be read is
    reported and the others imported (exit 1). `trajlog retract` takes an import back.
    """
    from eventlog.interchange.sources import expand

    report = _run(expand(sources, _suffixes(format)), format, split, strict)
    if json:
        from cli.output import print_json

        print_json(report)
    else:
        _print(report)
    if report.rejected:
        raise typer.Exit(1)


def _suffixes(format: str | None) -> set[str]:
    from eventlog.interchange import find, importers

    chosen = [find(format)] if format else importers()
    return {suffix for importer in chosen for suffix in importer.suffixes}


def _run(
    sources: "list[Source]", format: str | None, split: Literal["train", "dev", "audit", "final"], strict: bool
) -> "Report":
    from cli.progress import Progress
    from eventlog.blobs import BlobStore
    from eventlog.interchange import workers
    from eventlog.interchange.importer import run
    from eventlog.views import reading

    chosen = settings()
    blobs = BlobStore(chosen.blobs or chosen.home / "blobs")
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    with chosen.open() as log:
        with Progress("importing", total=total, unit="bytes") as bar:
            report = run(
                log,
                sources,
                blobs,
                format=format,
                split=split,
                strict=strict,
                workers=workers.count(),
                progress=bar.update,
            )
        if log.reader is not None:
            log.seal()
            with Progress("listing", unit="events") as bar, reading(log, progress=lambda done, _: bar.update(done)):
                pass
    return report


def _print(report: "Report") -> None:
    from cli.output import clean, print_text, style

    counts = report.episodes
    which = f" as import {report.import_id}" if report.import_id else ""
    episodes = "episode" if counts["new"] == 1 else "episodes"
    print_text(f"{counts['new']:,} {episodes} imported from {clean(report.format or 'no known format')}{which}")
    if counts["present"]:
        print_text(f"{counts['present']:,} in the log already")
    if report.unmapped:
        fields = ", ".join(f"{clean(reason)} ({count:,})" for reason, count in report.unmapped.items())
        print_text(f"unmapped: {fields}")
    if report.rejected:
        print_text(style(f"{counts['rejected']:,} rejected", "red") + "; mend them and import again: the rest stays")
        for refusal in report.rejected:
            print_text(f"  {clean(refusal.where)}: {clean(refusal.why)}")
        if counts["rejected"] > len(report.rejected):
            print_text(f"  and {counts['rejected'] - len(report.rejected):,} more")
