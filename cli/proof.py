"""`trajlog proof`: events that an auditor can check without the log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_text, style
from cli.settings import settings
from core.errors import Corrupt, NotFound, UsageError

if TYPE_CHECKING:
    from eventlog.log import Log
    from eventlog.versions.check import Checked
    from eventlog.versions.proof import Named


@command(
    "trajlog proof make @last-failed -o failed.pack",
    "trajlog proof make 1f0c@7 -o event.pack",
    "trajlog proof make 1f0c --tag release-1 -o 1f0c.pack",
)
def make(
    episode: Annotated[
        str, typer.Argument(metavar="EP[@N]", help="An episode as in show, or its event N alone; a stream as well.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where it goes; - is stdout.")] = "-",
    tag: Annotated[
        str | None, typer.Option(metavar="NAME", help="Under this tag's root; without, under one that is signed now.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a proof that events are in the log.

    JSON lines: the signed root, and each event with its inclusion proof (RFC 9162). Whoever has this
    instance's public key (trajlog key show), or the tag's receipt, can check it without the log, with
    trajlog proof check or with docs/check_proof.py, which is short enough to read. Blobs are not in it:
    events hold their addresses, which are their SHA-256.
    """
    from cli.place import STDOUT, place
    from eventlog.versions import proof
    from eventlog.versions.keys import Keys

    chosen = settings()
    keys = Keys(chosen.keys)
    with place(out, force) as file, chosen.open() as log:
        head, lines = proof.make(log, keys, _named(log, episode), under=tag)
        file.writelines(lines)
    if out != STDOUT:
        events = "1 event" if head.events == 1 else f"{head.events:,} events"
        note(f"{out}: {events} under the root at position {head.receipt.tag.position:,}")


def _named(log: "Log", name: str) -> "Named":
    """The stream, or one event of it, that people name as EP, EP@N or by the stream's own name."""
    from eventlog.versions.proof import Named

    stream, _, version = name.rpartition("@")
    numbered = bool(stream) and version.isascii() and version.isdigit() and version[0] != "0" and len(version) <= 18
    whole = stream if numbered else name
    for known in (whole, f"episode/{whole}"):
        if "/" in known and known.isprintable() and log.stream_head(known):
            return Named(known, int(version) if numbered else None)
    from cli.reading import reading
    from eventlog.views.named import resolve

    with reading(log) as connection:
        found = resolve(connection, name)
    return Named(found.stream, found.version)


@command(
    "trajlog proof check failed.pack --key auditors-copy.txt",
    "trajlog proof check failed.pack --receipt release-1.receipt --json",
)
def check(
    pack: Annotated[str, typer.Argument(metavar="PACK", help="A file that proof make wrote.")],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The public key, or a file with it, that came another way.")
    ] = None,
    receipt: Annotated[
        str | None, typer.Option(metavar="FILE", help="A receipt of the same log that came another way.")
    ] = None,
    json: Json = False,
) -> None:
    """Check a proof, with no log and no network.

    Without --key or --receipt it says `anchored: false`: a pack that vouches for itself proves nothing,
    whoever made it may have made up the whole log. A receipt anchors a pack under its own root, or one
    signed with its key. Exit 1: the pack is not as it was made, or not what the key or receipt is of.

    JSON: {ok, events, tag, anchored}; tag is null for a root that was signed for the pack alone.
    """
    from eventlog.versions.check import check
    from eventlog.versions.keys import read_key
    from eventlog.versions.receipt import load

    public = None if key is None else read_key(key)
    kept = None if receipt is None else load(receipt)
    try:
        with Path(pack).open("rb") as file:
            found = check(file, key=public, receipt=kept)
    except FileNotFoundError:
        raise NotFound("no such file", where=pack) from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=pack) from error
    if json:
        print_json({"ok": found.ok, "events": found.events, "tag": found.tag, "anchored": found.anchored})
    if found.fault is not None:
        raise Corrupt(found.fault, where=pack, mend="do not rely on it")
    if not json:
        _print(found)


def _print(found: "Checked") -> None:
    from core.identity import uuid_text
    from core.times import to_text

    assert found.receipt is not None and found.first is not None and found.last is not None
    tag = found.receipt.tag
    versions = f"event {found.first.version}"
    if found.events > 1:
        versions = f"events {found.first.version:,} to {found.last.version:,}, none between them left out,"
    print_text(f"{style('whole', 'green')}: {versions} of {clean(found.first.event.stream)}")
    name = "a root signed for this pack" if tag.name is None else f"tag {clean(tag.name)}"
    print_text(f"under     {name}: position {tag.position:,}, root {tag.root.hex()}")
    print_text(f"log       {uuid_text(tag.log_id)}")
    print_text(f"signed    {to_text(tag.created_at)} by {found.receipt.key.hex()}")
    if found.anchored:
        print_text(f"anchored: {style('true', 'green')}")
    else:
        print_text(
            f"anchored: {style('false', 'yellow')}; a pack that vouches for itself proves nothing: "
            "give --key or --receipt"
        )
