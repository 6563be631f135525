"""`trajlog release export`: a release in the formats that trainers read."""

from pathlib import Path
from typing import Annotated

import typer

from cli.filters import one_of
from cli.frame import Json, command
from cli.output import clean, note, print_json, print_text
from cli.releasing import Cuts, Name, Out, fetch, find, logs, need_arrow, place

_FORMATS = ("parquet", "hf", "openai", "atif")


@command(
    "trajlog release export sft@v2 --format hf --to dataset/",
    "trajlog release export sft@v2 --format openai --to sft/",
    "trajlog release export sft@v3 --format parquet --to look/ --review",
)
def export(
    name: Name,
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new folder.")],
    format: Annotated[str, typer.Option(metavar="NAME", help="parquet, hf, openai or atif.")] = "parquet",
    out: Out = None,
    review: Annotated[
        bool, typer.Option("--review", help="Export it to be looked at, though it is not approved.")
    ] = False,
    cut: Cuts = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    json: Json = False,
) -> None:
    """Export a release in the formats that trainers read.

    Only what was approved goes out for training. Rows are in canonical order; order.arrow, beside them, is
    their order of use, with weights. hf is a folder for datasets.load_from_disk; in openai's lines an
    assistant's message that must not train has weight 0.

    JSON: {release, state, format, to, rows}.
    """
    from eventlog.disk import faults

    need_arrow()
    from learners.releases import export as exporting

    one_of("--format", format, _FORMATS)
    with logs(cut or []) as found:
        release = find(found[0], name)
        exporting.check_approved(release, review=review)
        folder = place(out) / str(release.named)
        with faults(to):
            rows = exporting.export(release, folder, format, to, logs=found, fetch=fetch(), force=force)
    if release.state != "approved":
        note(f"{release.named} is {release.state}: to be looked at, not to be trained on")
    if json:
        report = {"release": str(release.named), "state": release.state, "format": format, "to": str(to), "rows": rows}
        print_json(report)
    else:
        print_text(f"{clean(str(release.named))}: {rows:,} rows as {format} in {clean(str(to))}")
