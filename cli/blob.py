"""`trajlog blob`: the bytes that events name."""

import re
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame import Json, command
from cli.output import clean, print_json, print_table, print_text
from cli.progress import Progress
from cli.settings import explain, settings
from core.errors import UsageError

if TYPE_CHECKING:
    from eventlog.blobs import BlobStore

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@command("trajlog blob get sha256:9f86d0… --out screen.png", "trajlog blob get sha256:9f86d0… | file -")
def get(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="sha256: and 64 hex digits, as show prints it.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it there instead of to stdout.")] = None,
) -> None:
    """Write a blob's bytes to stdout or a file."""
    import shutil
    import sys

    if out is None:
        with _store().open(address) as blob:
            shutil.copyfileobj(blob, sys.stdout.buffer)
        return
    from eventlog import disk

    data = _store().get(address)
    with disk.faults(out):
        disk.write_atomic(out, data, 0o644)


@command("trajlog blob gc", "trajlog blob gc --older-than 7d --delete")
def gc(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Only blobs stored longer ago than this: 90m, 6h, 7d.")
    ] = "1h",
    delete: Annotated[bool, typer.Option("--delete", help="Remove them; without it they are only named.")] = False,
    json: Json = False,
) -> None:
    """Find the blobs that no event names, and remove them with --delete.

    A blob is stored before its event, so a young one may still be waiting for it. A blob store that
    several logs share must not be collected by one of them.
    """
    from eventlog.verify.references import addresses

    age = _age(older_than)
    chosen = settings()
    sources = {setting.name: setting.source for setting in explain()}
    if delete and sources["db"] != "default" and sources["blobs"] == "default":
        raise UsageError(
            f"the blobs under {chosen.home} may be another log's",
            where="blob gc",
            mend="say which blobs belong to --db with TRAJLOG_BLOBS",
        )
    store = _store()
    named: set[str] = set()
    with chosen.open() as log, Progress("reading", total=log.head().position, unit="events") as bar:
        for event in log.read_all():
            named |= addresses(event.body)
            bar.advance()
    found = store.gc(named, age, dry_run=not delete)
    if json:
        print_json({"deleted": delete, "blobs": found.addresses, "bytes": found.size})
        return
    print_table(("address",), [[address] for address in found.addresses])
    done = "removed" if delete else "that no event names; --delete removes them"
    print_text(clean(f"{len(found.addresses):,} blobs of {found.size:,} bytes {done}"))


def _store() -> "BlobStore":
    from eventlog.blobs import BlobStore

    return BlobStore(settings().blobs)


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if found is None:
        raise UsageError(f"{text!r} is not an age", where="--older-than", mend="write 90m, 6h, 7d or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
