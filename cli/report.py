"""`trajlog report`: episodes as one page to mail."""

from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from cli.filters import AsOf
from cli.frame import Json, command
from cli.output import clean, note, print_json, print_text
from cli.place import STDOUT, place
from cli.progress import Progress
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.database import Connection
    from eventlog.report import Page


@command(
    "trajlog report @last-failed -o failed.html",
    "trajlog report 1f0c 77aa -o both.html --force",
    "trajlog report 1f0c -o small.html --no-images",
    "trajlog report 1f0c -o then.html --as-of release-1",
)
def report(
    episode: Annotated[str, typer.Argument(metavar="EP", help="An id, the beginning of one, @last or @last-failed.")],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where the page goes; - is stdout.")],
    other: Annotated[
        str | None, typer.Argument(metavar="EP2", help="A second episode: both, and how they differ.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Screenshots, or only what was touched.")] = True,
    as_of: AsOf = None,
    json: Json = False,
) -> None:
    """Write one or two episodes as one HTML page to mail.

    The page holds all it shows: facts, checks, verdicts, the timeline with thoughts and long values
    folded, and the screenshots, as they were recorded, with taps and swipes drawn over them. It loads
    nothing from elsewhere. Exit code 3: blobs were missing, and the page says where.

    JSON: {file, bytes, episodes, events, pictures, picture_bytes, missing: [address]}.
    """
    from cli.reading import position_of, reading
    from eventlog.blobs import BlobStore
    from eventlog.report import Page, Recorded

    chosen = settings()
    with place(out, force) as file, chosen.open() as log:
        cut = position_of(log, as_of)
        head = log.head().position if cut is None else cut
        with reading(log, as_of=cut) as connection:
            rows = [_row(connection, name) for name in (episode, other) if name is not None]
        found = [Recorded(name, row, list(log.read(f"episode/{name}", as_of=head))) for name, row in rows]
        page = Page(found, BlobStore(chosen.blobs), images=images, position=head)
        size = _write(page, file)
    events = sum(len(one.events) for one in found)
    if out == STDOUT:
        pass
    elif json:
        print_json(
            {
                "file": out,
                "bytes": size,
                "episodes": [one.episode for one in found],
                "events": events,
                "pictures": page.pictures,
                "picture_bytes": page.picture_bytes,
                "missing": page.missing,
            }
        )
    else:
        pictures = "1 picture" if page.pictures == 1 else f"{page.pictures:,} pictures"
        print_text(f"{clean(out)}: {size / 1e6:,.1f} MB, {events:,} events, {pictures}")
    if page.missing:
        blobs = "1 blob is" if len(page.missing) == 1 else f"{len(page.missing):,} blobs are"
        note(f"{blobs} missing or corrupt, and shown as missing: {page.missing[0]}")
        raise typer.Exit(3)


def _row(connection: "Connection", name: str) -> tuple[str, dict[str, Any]]:
    """The full id of an episode, and what its row says."""
    from eventlog.report import FIELDS
    from eventlog.views import listing
    from eventlog.views.named import resolve

    named = resolve(connection, name)
    if named.version is not None:
        raise UsageError("whole episodes are reported", where=name, mend="leave the @N out")
    return named.episode, listing.episode(connection, named.episode, FIELDS) or {}


def _write(page: "Page", file: BinaryIO) -> int:
    """How many bytes the page has."""
    size = 0
    with Progress("writing", unit="MB") as bar:
        for piece in page:
            data = piece.encode()
            file.write(data)
            size += len(data)
            bar.update(size // 1_000_000)
    return size
