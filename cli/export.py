"""`trajlog export`: episodes in the formats of other tools."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.output import clean, note, print_json, print_json_line, print_text, style
from cli.settings import settings
from core.errors import BadRecord, Corrupt, NotFound, UsageError

if TYPE_CHECKING:
    from core.event import StoredEvent
    from eventlog.database import Connection
    from eventlog.interchange.export.exporter import Exporter, Library
    from eventlog.interchange.export.outlet import Outlet
    from eventlog.log import Log
    from eventlog.views.listing import Filters


@command(
    "trajlog export @last --format atif",
    "trajlog export --all --format atif --out trajectories/",
    "trajlog export --verdict pass --split train --format openai --out sft.jsonl",
    "trajlog export 1f0c 2a9b --format otlp --out traces/ --force",
    "trajlog export --all --as-of release-1 --out trajectories/",
)
def export(
    episodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EP]...", help="Ids, beginnings of them, @last or @last-failed."),
    ] = None,
    format: Annotated[str, typer.Option(metavar="NAME", help="atif, openai or otlp.")] = "atif",
    out: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A folder (a file for each episode) or a file (a line for each)."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every episode.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    bare: Annotated[
        bool, typer.Option("--bare", help="Only what the format itself has: verdicts, ends and the like are lost.")
    ] = False,
    task: options.Task = None,
    verdict: options.Verdict = None,
    source: options.Source = None,
    policy: options.Policy = None,
    tool: options.Tool = None,
    split: options.Split = None,
    import_: options.Import = None,
    since: options.Since = None,
    until: options.Until = None,
    retracted: options.Retracted = False,
    as_of: options.AsOf = None,
    json: Json = False,
) -> None:
    """Export episodes in the formats of other tools.

    Which: by name, by the filters of `trajlog ls`, or --all. Without --out, or with --out -, JSON lines
    go to stdout. PATH is a folder if it is one, ends in a slash or has no suffix. What the format has no
    place for goes into its `extra` (in OTLP: attributes), and `trajlog import` takes it back.

    JSON, with --out: {format, out, episodes, inside, refused: [{where, why}], missing_blobs}; `inside` are
    sub-agents' episodes that went out in the file of another.
    """
    from cli.reading import none, position_of, reading
    from eventlog.interchange.export.exporter import find

    chosen = options.filters(
        task=task,
        verdict=verdict,
        source=source,
        policy=policy,
        tool=tool,
        split=split,
        import_=import_,
        since=since,
        until=until,
        retracted=retracted,
    )
    named = episodes or []
    exporter = find(format)
    filtered = chosen._replace(retracted=False) != type(chosen)()
    if named and (filtered or all_):
        raise UsageError("episodes are chosen by name, or by filters and --all", mend="give one of them")
    if not (named or filtered or all_):
        raise UsageError("no episodes are chosen", mend="name some, give a filter, or --all")
    with settings().open() as log:
        cut = position_of(log, as_of)
        head = log.head().position if cut is None else cut
        with reading(log, as_of=cut) as connection:
            ids = _named(connection, named) if named else _listed(connection, chosen)
        if not ids:
            note(none(log, "episodes"))
            return
        work = _Export(log, exporter, head, bare=bare)
        work.run(ids, out if out != "-" else None, force=force, whole=bool(named))
    if out is not None and out != "-":
        report = work.report(out)
        if json:
            print_json(report)
        else:
            _print(report)
    else:
        for refusal in work.refused:
            note(f"{refusal['where']}: {refusal['why']}")
    if work.missing:
        note(f"blobs that are missing, and stand as references: {len(work.missing):,} ({min(work.missing)})")
    if work.refused or work.missing:
        raise typer.Exit(1 if work.refused else 3)


def _named(connection: "Connection", names: Sequence[str]) -> list[str]:
    from eventlog.views.named import resolve

    found: dict[str, None] = {}
    for name in names:
        named = resolve(connection, name)
        if named.version is not None:
            raise UsageError("an episode is exported as a whole", where=name, mend="leave out the @N")
        found.setdefault(named.episode)
    return list(found)


def _listed(connection: "Connection", chosen: "Filters") -> list[str]:
    """The episodes in the order of the log, so that what holds others comes first."""
    from eventlog.views import listing

    page = listing.Page(reverse=True, limit=0)
    return [row["episode"] for row in listing.episodes(connection, chosen, page, fields=("episode",))]


class _Export:
    """An export under way, of what the log held at position `head`."""

    def __init__(self, log: "Log", exporter: "Exporter", head: int, *, bare: bool) -> None:
        from eventlog.blobs import BlobStore

        chosen = settings()
        self.log = log
        self.exporter = exporter
        self.head = head
        self.bare = bare
        self.blobs = BlobStore(chosen.blobs or chosen.home / "blobs")
        self.missing: set[str] = set()
        self.refused: list[dict[str, str]] = []
        self.done = 0
        self.inside = 0

    def run(self, ids: list[str], out: str | None, *, force: bool, whole: bool) -> None:
        """Export the episodes; `whole`: each on its own, though it went out inside another."""
        from cli.progress import Progress

        with self._outlet(ids, out, force) as place, Progress("exporting", total=len(ids), unit="episodes") as bar:
            library = self._library(place)
            for episode in ids:
                if episode in self.exporter.embedded and not whole:
                    self.inside += 1
                else:
                    self._one(episode, library, place)
                bar.advance()

    def report(self, out: str) -> dict[str, Any]:
        """What was done."""
        return {
            "format": self.exporter.name,
            "out": out,
            "episodes": self.done,
            "inside": self.inside,
            "refused": self.refused,
            "missing_blobs": len(self.missing),
        }

    def _one(self, episode: str, library: "Library", place: "Outlet | None") -> None:
        from msgspec import Raw

        try:
            document = self.exporter.document(episode, self._events(episode), library)
        except BadRecord as error:
            self.refused.append({"where": error.where or episode, "why": error.what})
            return
        if place is None:
            print_json_line(Raw(document))
        else:
            place.put(episode, document)
        self.done += 1

    def _events(self, episode: str) -> "list[StoredEvent]":
        return list(self.log.read(f"episode/{episode}", as_of=self.head))

    def _child(self, episode: str) -> "list[StoredEvent]":
        """The events of an episode that another one names; none if that is no name of one."""
        known = "\0" not in episode and len(episode) < 500 and self.log.stream_head(f"episode/{episode}")
        return self._events(episode) if known else []

    def _fetch(self, address: str) -> bytes | None:
        try:
            return self.blobs.get(address)
        except (NotFound, Corrupt):
            self.missing.add(address)
            return None

    def _library(self, place: "Outlet | None") -> "Library":
        from eventlog.interchange.export.exporter import Library

        library = Library(self._fetch, events=self._child, bare=self.bare)
        return library if place is None else library._replace(image=place.image)

    def _outlet(self, ids: list[str], out: str | None, force: bool) -> "AbstractContextManager[Outlet | None]":
        from eventlog.interchange.export.outlet import outlet

        if out is None:
            return nullcontext()
        return outlet(out, self.exporter.suffix, ids, self._fetch, force=force)


def _print(report: dict[str, Any]) -> None:
    episodes = "episode" if report["episodes"] == 1 else "episodes"
    inside = f", {report['inside']:,} more inside them" if report["inside"] else ""
    print_text(f"{report['episodes']:,} {episodes} exported as {report['format']} to {clean(report['out'])}{inside}")
    if report["refused"]:
        print_text(style(f"{len(report['refused']):,} refused", "red"))
        for refusal in report["refused"]:
            print_text(f"  {clean(refusal['where'])}: {clean(refusal['why'])}")
