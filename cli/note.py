"""`trajlog note`: a remark that stays with the record."""

from typing import Annotated

import typer

from cli.frame import Json, command
from cli.settings import settings


@command("trajlog note 1f0c@14 'It never looked at the reply.'", "trajlog note @last-failed 'Seen before: 77aa.'")
def note(
    episode: Annotated[
        str, typer.Argument(metavar="EP[@N]", help="An episode as in show, or event N of it, which the note is about.")
    ],
    text: Annotated[str, typer.Argument(help="What to note.")],
    json: Json = False,
) -> None:
    """Add a note to an episode or to one of its events.

    A note is an event like any other: it stays, `trajlog show` shows it and `trajlog grep` finds it.
    """
    from cli.reading import reading
    from cli.written import print_written
    from eventlog import remarks
    from eventlog.views.named import resolve

    with settings().open() as log:
        with reading(log) as connection:
            about = resolve(connection, episode)
        print_written(remarks.note(log, about, text), "noted", json=json)
