"""`trajlog atif lint`: is a trajectory what ATIF says it is?"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json_array, print_text, style
from core.errors import BadRecord

if TYPE_CHECKING:
    from eventlog.interchange.sources import Source

_COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


@command(
    "trajlog atif lint trajectory.json",
    "trajlog atif lint runs/ 'more/*.jsonl' --json",
    "trajlog export --all --format atif | trajlog atif lint -",
)
def lint(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files, folders, quoted globs, or - for stdin.")
    ],
    json: Json = False,
) -> None:
    """Check ATIF trajectories against the format's rules.

    More is checked than the format's own models do: empty steps, unknown versions, results that name no
    call of their step, ids used twice, logprobs that are not one per token, images that are none. Steps
    copied from another trajectory are named, since they must not train. Exit 1 if there are errors;
    warnings and infos alone are no failure.

    JSON: [{file, path, rule, severity, message}].
    """
    from eventlog.interchange.sources import expand

    sources = expand(files, (".json", ".jsonl", ".ndjson"))
    counts = {"error": 0, "warning": 0, "info": 0}
    found = _counted(_findings(sources), counts)
    if json:
        print_json_array(found)
    else:
        for finding in found:
            severity = style(finding["severity"], _COLOURS[finding["severity"]])
            place = clean(f"{finding['file']}: {finding['path']}")
            print_text(f"{place}: {severity} {finding['rule']}: {clean(finding['message'])}")
    if not json and not sum(counts.values()):
        note("nothing found")
    if counts["error"]:
        raise typer.Exit(1)


def _counted(findings: Iterator[dict[str, Any]], counts: dict[str, int]) -> Iterator[dict[str, Any]]:
    for finding in findings:
        counts[finding["severity"]] += 1
        yield finding


def _findings(sources: "list[Source]") -> Iterator[dict[str, Any]]:
    """What there is to say about each trajectory of each file."""
    from msgspec.structs import asdict

    from eventlog.interchange import Rejected
    from eventlog.interchange.atif.lint import lint as check
    from eventlog.interchange.records import records

    for source in sources:
        folder = source.path.parent if source.path else None
        empty = True
        try:
            with source.open() as reader:
                for record in records(source, reader):
                    empty = False
                    if isinstance(record, Rejected):
                        yield _unreadable(record.where, record.why)
                        continue
                    for finding in check(record.value, folder):
                        yield {"file": record.where, **asdict(finding)}
            if empty:
                yield _unreadable(source.name, "holds no records")
        except BadRecord as error:
            yield _unreadable(error.where or source.name, error.what)


def _unreadable(where: str, why: str) -> dict[str, Any]:
    return {"file": where, "path": "$", "rule": "record", "severity": "error", "message": why}
