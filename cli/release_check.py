"""`trajlog release rebuild|verify|diff`: whether a release is what it says, and what changed between two."""

from typing import Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, print_json, print_text, style
from cli.releasing import Cuts, Name, Out, fetch, find, logs, need_arrow, place
from cli.settings import settings

_SHOWN = 200


@command(
    "trajlog release rebuild sft@v2",
    "trajlog release rebuild sft@v2 --out /mnt/releases --json",
    "trajlog release rebuild sft@v1 --force",
)
def rebuild(
    name: Name,
    out: Out = None,
    cut: Cuts = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a folder whose files were edited.")] = False,
    json: Json = False,
) -> None:
    """Build a release again and compare the id and the bytes.

    From what the log says of it alone; its folder is written if it is missing. Exit 3 where something it holds
    was erased since, 1 where it cannot be the same otherwise.

    JSON: {id, identical, reason: null|erased|code|differs}.
    """
    from cli.progress import Progress
    from cli.reading import processes
    from eventlog.disk import faults

    need_arrow()
    from learners.releases.rebuild import rebuild as rebuild_release

    with logs(cut or []) as found, Progress("building again", unit="rows") as bar:
        found[0].seal()
        release = find(found[0], name)
        with faults(place(out)):
            made = rebuild_release(
                release, found, place(out), fetch(), force=force, progress=bar.update, processes=processes()
            )
    if json:
        print_json({"id": made.id, "identical": made.identical, "reason": made.reason})
    elif made.identical:
        print_text(f"{clean(str(release.named))}: {style('identical', 'green')}, id {made.id}")
        print_text(f"in {clean(str(made.folder))}")
    else:
        print_text(f"{clean(str(release.named))}: {style(str(made.reason), 'red')}, {clean(made.detail or '')}")
    if not made.identical:
        raise typer.Exit(3 if made.reason == "erased" else 1)


@command("trajlog release verify sft@v2", "trajlog release verify sft --out /mnt/releases --json")
def verify(name: Name, out: Out = None, json: Json = False) -> None:
    """Check that the files of a release are those that were built.

    Every file that was edited, lost or added is named. JSON: {release, folder, ok, files, faults: [{file, why}]}.
    """
    from learners.releases import checking, manifest

    with settings().open() as log:
        release = find(log, name)
    folder = place(out) / str(release.named)
    found = manifest.read(folder)
    faults = checking.faults(folder, found, release)
    if json:
        print_json(
            {
                "release": str(release.named),
                "folder": str(folder),
                "ok": not faults,
                "files": len(found.files) + 1,
                "faults": [{"file": fault.file, "why": fault.why} for fault in faults],
            }
        )
    elif faults:
        for fault in faults:
            print_text(f"{clean(str(folder / fault.file))}: {style(clean(fault.why), 'red')}")
    else:
        print_text(f"{clean(str(release.named))}: {style('whole', 'green')}, {len(found.files) + 1:,} files")
    if faults:
        raise typer.Exit(1)


@command(
    "trajlog release diff sft@v1 sft@v2", "trajlog release diff sft@v1 sft@v2 --why", "trajlog release diff a b --json"
)
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help="A release.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    why: Annotated[bool, typer.Option("--why", help="Put every change under its cause.")] = False,
    cut: Cuts = None,
    json: Json = False,
) -> None:
    """Show which rows were added, removed or changed, and why.

    A cause is one of: new events, superseded verdict, reviewer, retraction, erasure, fold version, recipe, split.

    JSON: {a, b, same, added, removed, changed, causes: {cause: n}, rows: [{row, log, change, cause, detail}]}.
    """
    from cli.progress import Progress
    from core.identity import uuid_text

    need_arrow()
    from learners.releases import difference

    with logs(cut or []) as found, Progress("comparing", unit="rows") as bar:
        old, new = find(found[0], a), find(found[0], b)
        changes = difference.compare(found[0], old, new)
        if why:
            changes = difference.explain(changes, old, new, found, bar.update)
    rows: list[dict[str, Any]] = [
        {
            "row": f"{change.key.stream}@{change.key.version}#{change.key.row}",
            "log": uuid_text(change.key.log_id),
            "change": change.kind,
            "cause": change.cause,
            "detail": change.detail,
        }
        for change in changes.changes
    ]
    if json:
        report = {"a": str(old.named), "b": str(new.named), "same": changes.same, **changes.kinds}
        print_json({**report, "causes": changes.causes, "rows": rows})
        return
    counts = ", ".join(f"{count:,} {kind}" for kind, count in changes.kinds.items())
    print_text(f"{clean(str(old.named))} → {clean(str(new.named))}: {counts}, {changes.same:,} the same")
    for cause in changes.causes or [None]:
        shown = [row for row in rows if row["cause"] == cause]
        if cause:
            print_text(style(f"{cause}: {len(shown):,}", "bold"))
        for row in shown[:_SHOWN]:
            mark = {"added": "+", "removed": "-", "changed": "~"}[row["change"]]
            detail = f"  {clean(row['detail'])}" if row["detail"] else ""
            print_text(f"  {mark} {clean(row['row'])}{detail}")
        if len(shown) > _SHOWN:
            print_text(f"  … {len(shown) - _SHOWN:,} more (--json has all)")
