"""`trajlog grep`: text in episodes, found by an index."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.filters import AsOf, Policy, Retracted, Source, Split, Task, Verdict, one_of
from cli.filters import filters as chosen_filters
from cli.frame import Json, command
from cli.output import clean, note, print_json_array, print_text, style
from cli.settings import settings
from cli.terminal import columns, cut, width

if TYPE_CHECKING:
    from eventlog.search import Hit, Search
    from eventlog.search.texts import Fetch

_AROUND = 160
"""Characters of a line shown around the match where no width says how many."""
_NARROWEST = 20


@command(
    "trajlog grep 'no such flight'",
    "trajlog grep -i timeout --in feedback --since 6h --verdict fail",
    "trajlog grep 予約 --task airline/3 --json",
    "trajlog grep -E 'HAT[0-9]{3}' --in action --limit 0",
)
def grep(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="The text to look for.")],
    regex: Annotated[
        bool, typer.Option("--regex/--fixed", "-E/-F", help="PATTERN is a regular expression (Python's), or is not.")
    ] = False,
    ignore_case: Annotated[bool, typer.Option("--ignore-case", "-i", help="Upper and lower case are one.")] = False,
    parts: Annotated[
        list[str] | None,
        typer.Option(
            "--in",
            metavar="PART",
            help="Only in action, feedback, message, thought or note; may be given more than once.",
        ),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Events since: 7d, 6h, a date, a time.")] = None,
    episode: Annotated[str | None, typer.Option(metavar="EP", help="Only in this episode.")] = None,
    task: Task = None,
    verdict: Verdict = None,
    source: Source = None,
    policy: Policy = None,
    split: Split = None,
    retracted: Retracted = False,
    as_of: AsOf = None,
    limit: Annotated[int, typer.Option(min=0, help="At most so many lines; 0 is all.")] = 50,
    json: Json = False,
) -> None:
    """Search the text of episodes.

    Line by line, in any script; full and half width, composed and decomposed characters are one. Each
    line found is named by its event (EP@N shows it in full), the newest first; of a long one, what
    stands around the match is shown. What is searched is what was said, done and seen: texts, arguments,
    results, notes, goals, verdicts, and the large texts in the blob store, but no UI trees.

    Patterns of four letters, or two characters of Chinese, Japanese or Korean, are found by an index,
    which is brought up to date first; for shorter ones everything is read.

    JSON: [{episode, version, step, type, in, position, occurred_at, line, spans: [[first, end]]}].
    """
    from cli.progress import Progress
    from cli.reading import position_of, reading
    from core.times import parse_since
    from eventlog.search import Pattern, Scope, Search
    from eventlog.search.texts import PARTS
    from eventlog.views.named import resolve

    wanted = Pattern(pattern, regex=regex, ignore_case=ignore_case)
    filters = chosen_filters(
        task=task,
        verdict=verdict,
        source=source,
        policy=policy,
        tool=None,
        split=split,
        import_=None,
        since=None,
        retracted=retracted,
    )
    chosen_parts = tuple(part for part in PARTS if part in [one_of("--in", name, PARTS) for name in parts or []])
    earliest = None if since is None else parse_since(since)
    chosen = settings()
    fetch, missing = _texts(chosen.blobs)
    with ExitStack() as stack:
        log = stack.enter_context(chosen.open())
        cut = position_of(log, as_of)
        connection = stack.enter_context(reading(log, as_of=cut))
        only = None if episode is None else resolve(connection, episode).episode
        scope = Scope(filters, only, earliest, chosen_parts, cut)
        search = Search(log, connection, wanted, scope, fetch)
        with Progress("indexing", unit="events") as bar:
            search.prepare(bar.update)
        hits = _watched(search)
        shown = _print(hits if limit == 0 else islice(hits, limit), json)
        more = limit > 0 and shown == limit and next(hits, None) is not None
    if more:
        note(f"there are more: --limit {limit * 4}, or 0 for all")
    if missing:
        absent = "1 large text is" if len(missing) == 1 else f"{len(missing):,} large texts are"
        note(f"not searched: {absent} not in the blob store")


def _texts(place: str) -> tuple["Fetch", set[str]]:
    """Reads texts from the blob store; those that are not there are collected."""
    missing: set[str] = set()

    def fetch(address: str) -> str | None:
        from core.errors import Corrupt, NotFound
        from eventlog.blobs import BlobStore

        try:
            return BlobStore(place).get(address).decode()
        except (NotFound, Corrupt):
            missing.add(address)
        except UnicodeDecodeError:
            pass
        return None

    return fetch, missing


def _watched(search: "Search") -> Iterator["Hit"]:
    """The hits as they come; a progress bar while none does."""
    from cli.progress import Progress

    pages = None
    while True:
        with Progress("searching", unit="events") as bar:
            pages = search.pages(bar.update) if pages is None else pages
            page = next(pages, None)
        if page is None:
            return
        yield from page


def _print(hits: Iterable["Hit"], json: bool) -> int:
    """Print the hits and return how many they were."""
    count = 0

    def counted() -> Iterator["Hit"]:
        nonlocal count
        for hit in hits:
            count += 1
            yield hit

    if json:
        print_json_array(_json(hit) for hit in counted())
    else:
        last = None
        for hit in counted():
            _print_hit(hit, last)
            last = hit.episode
        if not count:
            note("nothing found")
    return count


def _json(hit: "Hit") -> dict[str, Any]:
    from core.times import to_text

    row = hit._asdict()
    row["in"] = row.pop("part")
    row["occurred_at"] = None if hit.occurred_at is None else to_text(hit.occurred_at)
    order = ("episode", "version", "step", "type", "in", "position", "occurred_at", "line", "spans")
    return {name: row[name] for name in order}


def _print_hit(hit: "Hit", last: str | None) -> None:
    """On a terminal under its episode's name, in a pipe behind it."""
    limit = columns()
    if limit is not None and hit.episode != last:
        print_text(style(clean(hit.episode), "bold"))
    step = "" if hit.step is None else f"step {hit.step}"
    where = f"@{hit.version:<5} {step:<9} {hit.part:<8} "
    where = f"  {where}" if limit is not None else f"{clean(hit.episode)}{where}"
    room = _AROUND if limit is None else max(limit - width(where), _NARROWEST)
    print_text(where + _around(hit.line, hit.spans, room))


def _around(line: str, spans: list[tuple[int, int]], room: int) -> str:
    """The line around its first match, in so many columns, its matches marked."""
    first = max(0, spans[0][0] - room // 4)
    shown = "…" if first else ""
    used = width(shown)
    at = first
    for start, end in [*spans, (len(line), len(line))]:
        for text, marked in ((line[at:start], False), (line[start:end], True)):
            text = clean(text[: room * 2])
            left = room - used - 2 * marked
            if left <= 0:
                return shown
            text = cut(text, left)
            used += width(text) + 2 * marked
            shown += _marked(text) if marked and text else text
        at = end
    return shown


def _marked(text: str) -> str:
    styled = style(text, "red", "bold")
    return styled if styled != text else f"»{text}«"
