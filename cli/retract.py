"""`trajlog retract`: take back a mistaken import."""

from typing import Annotated

import typer

from cli.frame import Json, command
from cli.output import print_json, print_text
from cli.settings import settings


@command("trajlog retract 0192d3c4", "trajlog retract 0192d3c4 --why 'wrong split'")
def retract(
    import_id: Annotated[str, typer.Argument(metavar="IMPORT", help="The import's id, or the beginning of it.")],
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="The reason, for whoever reads the log.")] = None,
    json: Json = False,
) -> None:
    """Take back a mistaken import.

    Nothing is removed: each of its episodes says that it was retracted and is left out of lists. The
    same records can be imported again. Doing it twice changes nothing.
    """
    from eventlog.interchange import retract as retraction

    with settings().open() as log:
        done = retraction.retract(log, retraction.resolve(log, import_id), why)
    if json:
        print_json(done)
    elif done.episodes:
        print_text(f"{done.episodes:,} episodes of import {done.import_id} retracted")
    else:
        print_text(f"import {done.import_id} was retracted already")
