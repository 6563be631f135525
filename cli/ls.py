"""`trajlog ls`: episodes as a list."""

from typing import Annotated, Any

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.output import note, print_json_array, print_table
from cli.settings import settings

_COLUMNS = ("episode", "verdict", "reward", "steps", "tokens", "task", "failing_tool", "policy", "source", "started_at")


@command(
    "trajlog ls",
    "trajlog ls --verdict fail --since 7d",
    "trajlog ls --task airline/3 --sort steps --json",
    "trajlog ls --tool search_flights --limit 20",
    "trajlog ls --verdict fail --as-of release-1",
)
def ls(
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
    sort: Annotated[
        str,
        typer.Option(
            help="By position, started, ended, reward, steps, events, tokens (largest first), task, verdict, source,"
            " policy or tool."
        ),
    ] = "position",
    reverse: options.Reverse = False,
    limit: options.Limit = 50,
    after: Annotated[
        str | None, typer.Option(metavar="EPISODE", help="The next page: those after this episode.")
    ] = None,
    json: Json = False,
) -> None:
    """List episodes.

    The newest first, by their place in the log. With more of them than the limit, a note on stderr
    says how to see the next page.
    """
    from cli.reading import none, position_of, reading
    from eventlog.views import listing

    filters = options.filters(
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
    page = listing.Page(sort, reverse, limit + 1 if limit else 0, after)
    with settings().open() as log, reading(log, as_of=position_of(log, as_of)) as connection:
        rows: Any = listing.episodes(connection, filters, page)
        last = None
        if limit:
            rows = list(rows)
            last = rows[limit - 1]["episode"] if len(rows) > limit else None
            rows = rows[:limit]
        if json:
            print_json_array(rows)
        else:
            table = [[_cell(name, row[name]) for name in _COLUMNS] for row in rows]
            if table:
                print_table(_COLUMNS, table, right=("reward", "steps", "tokens"))
            else:
                note(none(log, "episodes"))
        if last is not None:
            note(f"there are more; the next page: --after {last}")


def _cell(name: str, value: Any) -> Any:
    if name == "started_at" and value:
        return value[:19] + "Z"
    if name == "reward" and value is not None:
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else value
