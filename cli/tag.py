"""`trajlog tag`: names for what the log was, signed."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, note, print_json, print_json_array, print_table, print_text, style
from cli.settings import settings

if TYPE_CHECKING:
    from core.tag import Receipt
    from eventlog.versions.cut import Cut
    from eventlog.versions.tags import Changed

_SHOWN = 10

Name = Annotated[str, typer.Argument(metavar="NAME", help="The tag's name.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]


@command(
    "trajlog tag create release-1",
    "trajlog tag create before-retraction --at 120000 --why 'Asked for by the audit.'",
    "trajlog tag create year-2026 --at 2027-01-01 --json",
)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A letter, then letters, digits and ._:+/-")],
    at: Annotated[
        str | None,
        typer.Option(metavar="POSITION|TIME", help="Tag the log as of there; by default as it is now."),
    ] = None,
    why: Annotated[str | None, typer.Option(metavar="TEXT", help="What it is for; it is signed too.")] = None,
    json: Json = False,
) -> None:
    """Name the log as it is, or was, for ever.

    A tag names a position and the root of the Merkle tree up to there, signed with this instance's key
    in the key folder (TRAJLOG_KEYS); the first tag makes the key. No tag is ever changed or removed.
    A time means what was committed by then. Keep a receipt elsewhere: trajlog tag receipt NAME.

    JSON: {name, log, position, root}.
    """
    from core.identity import uuid_text
    from eventlog.versions import tags
    from eventlog.versions.keys import Keys

    chosen = settings()
    keys = Keys(chosen.keys)
    with chosen.open() as log:
        made = tags.create(log, keys, name, at=at, why=why).tag
    if json:
        print_json(
            {"name": made.name, "log": uuid_text(made.log_id), "position": made.position, "root": made.root.hex()}
        )
    else:
        print_text(f"{clean(name)}: position {made.position:,}, root {made.root.hex()}")


@command("trajlog tag ls", "trajlog tag ls --json")
def ls(json: Json = False) -> None:
    """List tags.

    By position. JSON: [{name, position, root, created_at, why}].
    """
    from core.times import to_text
    from eventlog.versions import tags

    with settings().open() as log:
        found = [receipt.tag for receipt in tags.tags(log)]
    if json:
        print_json_array(
            {
                "name": tag.name,
                "position": tag.position,
                "root": tag.root.hex(),
                "created_at": to_text(tag.created_at),
                "why": tag.why,
            }
            for tag in found
        )
    elif found:
        print_table(
            ("tag", "position", "created", "root", "why"),
            [
                (tag.name, f"{tag.position:,}", to_text(tag.created_at)[:19] + "Z", tag.root.hex()[:16], tag.why)
                for tag in found
            ],
            right=("position",),
        )
    else:
        note("no tags yet; trajlog tag create NAME makes one")


@command("trajlog tag show release-1", "trajlog tag show release-1 --json")
def show(name: Name, json: Json = False) -> None:
    """Show what a tag says, and who signed it.

    JSON: {name, log, instance, position, root, seal, offsets: [[topic, partition, next]], created_at, why,
    key, signature}.
    """
    from msgspec.structs import asdict

    from core.tag import tag_json
    from eventlog.versions import tags

    with settings().open() as log:
        found = tags.tag(log, name)
    shown: dict[str, Any] = {
        **asdict(tag_json(found.tag)),
        "key": found.key.hex(),
        "signature": found.signature.hex(),
    }
    if json:
        print_json(shown)
        return
    shown["position"] = f"{found.tag.position:,}"
    shown["offsets"] = ", ".join(f"{topic} {partition}: {n:,}" for topic, partition, n in shown["offsets"])
    for label, value in shown.items():
        if value:
            print_text(f"{label:<10} {clean(value)}")


@command("trajlog tag verify", "trajlog tag verify release-1", "trajlog tag verify --key old-key.txt --json")
def verify(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Only this tag; every one without.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="A public key, or a file with one, that you vouch for.")
    ] = None,
    json: Json = False,
) -> None:
    """Check that the log still is what tags name.

    Exit 0: all hold. 1: one does not. 3: all do, but a key that signed is vouched for neither by the key
    folder nor by the rotations that join it to one there. The tree is compared, not each event with it:
    trajlog verify does that.

    JSON: [{name, position, ok, anchored, detail}].
    """
    from eventlog.versions import tags
    from eventlog.versions.keys import Keys, read_key

    chosen = settings()
    keys = Keys(chosen.keys)
    given = [] if key is None else [read_key(key)]
    with chosen.open() as log:
        log.seal()
        found = tags.tags(log) if name is None else [tags.tag(log, name)]
        trusted = tags.trusted(log, keys, found, *given)
        rows = [_verified(receipt, tags.fault(log, receipt), trusted) for receipt in found]
    if json:
        print_json_array(rows)
    elif rows:
        print_table(
            ("tag", "position", "", "detail"),
            [(row["name"], f"{row['position']:,}", _verdict(row), row["detail"]) for row in rows],
            right=("position",),
        )
    else:
        note("no tags yet; trajlog tag create NAME makes one")
    if not all(row["ok"] for row in rows):
        raise typer.Exit(1)
    if not all(row["anchored"] for row in rows):
        raise typer.Exit(3)


def _verified(receipt: "Receipt", fault: str | None, trusted: frozenset[bytes]) -> dict[str, Any]:
    anchored = fault is None and receipt.key in trusted
    detail = fault
    if fault is None and not anchored:
        detail = f"nobody vouches for the key {receipt.key.hex()}; give it with --key if you do"
    return {
        "name": receipt.tag.name,
        "position": receipt.tag.position,
        "ok": fault is None,
        "anchored": anchored,
        "detail": detail,
    }


def _verdict(row: dict[str, Any]) -> str:
    if not row["ok"]:
        return style("broken", "red")
    return style("holds", "green") if row["anchored"] else style("unknown key", "yellow")


@command(
    "trajlog tag diff release-1 release-2",
    "trajlog tag diff release-1 2026-06-01",
    "trajlog tag diff release-1 release-2 --json",
)
def diff(
    one: Annotated[str, typer.Argument(metavar="A", help="A tag; a position or a time is one as well.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    json: Json = False,
) -> None:
    """Show what came into the log between two tags.

    Events by type, and the episodes that are new or have gone on. Nothing can have gone away: the proof
    (RFC 9162, 2.1.4) shows that the later tag extends the earlier, and is checked first.

    JSON: {from: {position, root}, to: {position, root}, events: {type: count}, episodes: {new: [{episode,
    events}], changed: [{episode, events}]}, proof: [hash]}.
    """
    from eventlog.versions import tags

    with settings().open() as log:
        found = tags.diff(log, one, other)
    if json:
        print_json(
            {
                "from": _cut(found.old),
                "to": _cut(found.new),
                "events": found.types,
                "episodes": {"new": found.begun, "changed": found.changed},
                "proof": [node.hex() for node in found.proof],
            }
        )
        return
    count = sum(found.types.values())
    print_text(f"positions {found.old.position:,} to {found.new.position:,}: {count:,} events")
    if found.types:
        print_table(("events", "type"), [(f"{n:,}", name) for name, n in found.types.items()], right=("events",))
    for word, episodes in (("new", found.begun), ("changed", found.changed)):
        if episodes:
            print_text(f"{word} episodes: {len(episodes):,} ({_some(episodes)})")
    print_text(f"the later extends the earlier: proven by {len(found.proof)} hashes (--json)")


def _cut(cut: "Cut") -> dict[str, Any]:
    return {"position": cut.position, "root": cut.root.hex()}


def _some(episodes: "list[Changed]") -> str:
    more = ", …" if len(episodes) > _SHOWN else ""
    return ", ".join(clean(one.episode) for one in episodes[:_SHOWN]) + more


@command("trajlog tag receipt release-1 -o release-1.receipt", "trajlog tag receipt release-1 | tee kept")
def receipt(
    name: Name,
    out: Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="Where it goes; - is stdout.")] = "-",
    force: Force = False,
) -> None:
    """Write a tag's receipt, to be kept elsewhere.

    One line of JSON: the tag, the public key and the signature. As long as somebody keeps it where this
    log's keeper cannot reach it, trajlog verify --receipt shows whether the log still holds all it covers.
    """
    from cli.place import STDOUT, place
    from core.tag import receipt_line
    from eventlog.versions import tags

    with settings().open() as log:
        data = receipt_line(tags.tag(log, name))
    with place(out, force) as file:
        file.write(data)
    if out != STDOUT:
        note(f"{out}: the receipt of {name}")
