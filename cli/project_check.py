"""`trajlog project verify` and `shadow`: tables against what folds give."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.frame import Json, command
from cli.output import clean, json_bytes, note, print_json, print_json_array, print_table, print_text, style
from cli.settings import settings
from core.errors import NotFound

if TYPE_CHECKING:
    from eventlog.projection.verify import Difference, Verified

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which; all, if none is named.")]

_SHOWN = 60


@command("trajlog project verify", "trajlog project verify episode --json")
def verify(
    names: Names = None,
    json: Json = False,
) -> None:
    """Check that tables hold what their folds give.

    Every stream is folded again and compared with its rows, column by column. A stream that comes out
    otherwise when it is folded once more has a fold that is not deterministic: it asks a clock, or chance.
    Else the table was changed by hand, or the fold without a new version; `trajlog project rebuild` mends it.
    Exit code 1: something differs.

    JSON: [{name, version, position, rows, streams (that differ), unstable (of these), differences: [{stream,
    key, column, table, fold}]}].
    """
    from cli.progress import Progress
    from eventlog.log import reader_of
    from eventlog.projection import checkpoints, registry
    from eventlog.projection import verify as module
    from learners.views.folds import PROJECTIONS

    with settings().open() as log, reader_of(log).borrow() as connection:
        known = registry.projections(more=PROJECTIONS)
        if names:
            known = [projection for projection in registry.choose(known, names) if projection.name in names]
        made = [p for p, point in zip(known, checkpoints(connection, known), strict=True) if point.made]
        found = []
        for projection in made:
            with Progress(f"verifying {projection.name}", unit="streams") as bar:
                found.append(module.verify(connection, projection, bar.update))
    if json:
        print_json_array(found)
    else:
        for one in found:
            _print(one)
        if not found:
            note("no projection was folded yet")
    if not all(one.ok for one in found):
        raise typer.Exit(1)


def _print(one: "Verified") -> None:
    head = f"{one.name} v{one.version} at {one.position:,}: {one.rows:,} rows"
    if one.ok:
        print_text(clean(f"{head}, as its fold gives them"))
        return
    streams = "1 stream differs" if one.streams == 1 else f"{one.streams:,} streams differ"
    print_text(style(clean(f"{head}, {streams}"), "red"))
    if one.unstable:
        columns = ", ".join(dict.fromkeys(d.column for d in one.differences if d.column is not None))
        print_text(clean(f"  the fold is not deterministic: {columns or 'which rows there are'}"))
    _print_differences(one.differences)


def _print_differences(differences: "list[Difference]") -> None:
    rows = [(d.stream, _short(d.key), d.column or "(row)", _short(d.table), _short(d.fold)) for d in differences]
    if rows:
        print_table(("stream", "key", "column", "table", "fold"), rows)


def _short(value: Any) -> str:
    text = "-" if value is None else json_bytes(value).decode()
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


@command("trajlog project shadow my_view", "trajlog project shadow my_view --json")
def shadow(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The projection.")],
    json: Json = False,
) -> None:
    """Show which rows a new version of a fold would change.

    The fold as it is installed is compared with the rows that are read now, at the same position. Nothing
    is written.

    JSON: {name, table, fold (versions), position, rows, added, removed, changed, columns: {column: rows},
    new_columns, gone_columns, examples: [{stream, key, column, table, fold}]}.
    """
    from cli.progress import Progress
    from eventlog.log import reader_of
    from eventlog.projection import View, registry
    from eventlog.projection import verify as module
    from learners.views.folds import PROJECTIONS

    with settings().open() as log, reader_of(log).borrow() as connection:
        projection = registry.choose(registry.projections(more=PROJECTIONS), [name])[-1]
        row = connection.execute(
            "SELECT version FROM trajlog.projection WHERE name = %s AND live", (projection.name,)
        ).fetchone()
        if row is None:
            raise NotFound("it was never folded", where=f"projection {name}", mend="run: trajlog project run")
        with Progress(f"folding {name}", unit="streams") as bar:
            found = module.shadow(connection, projection, View(projection.name, row[0]), bar.update)
    if json:
        print_json(found)
        return
    versions = f"v{found.table}" if found.table == found.fold else f"v{found.table} → v{found.fold}"
    print_text(clean(f"{found.name} {versions} at {found.position:,}: of {found.rows:,} rows"))
    print_text(f"  {found.changed:,} would change, {found.added:,} be added, {found.removed:,} be gone")
    for column, count in sorted(found.columns.items(), key=lambda item: -item[1]):
        print_text(clean(f"  {column}: {count:,}"))
    for said, columns in (("new", found.new_columns), ("gone", found.gone_columns)):
        if columns:
            print_text(clean(f"  {said} columns: {', '.join(columns)}"))
    _print_differences(found.examples)
