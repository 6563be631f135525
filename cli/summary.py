"""What `trajlog tasks`, `tools` and `policies` share: rows as they are chosen and printed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cli.output import note, print_json_array, print_table
from cli.settings import settings

if TYPE_CHECKING:
    from eventlog.views.summaries import Kind


def summarise(
    kind: "Kind",
    columns: Sequence[str],
    *,
    order: tuple[str | None, bool, int],
    as_of: str | None,
    json: bool,
    **chosen: Any,
) -> None:
    """Print a summary of the episodes that were chosen."""
    from cli import filters as options
    from cli.reading import none, position_of, reading
    from eventlog.views import EPISODES
    from eventlog.views.listing import Filters
    from eventlog.views.summaries import Order, rows

    filters = options.filters(verdict=None, tool=None, retracted=False, **chosen)
    sort, reverse, limit = order
    views = (kind.view,) if filters == Filters() else (EPISODES, kind.view)
    with settings().open() as log, reading(log, views, as_of=position_of(log, as_of)) as connection:
        found = list(rows(connection, kind, filters, Order(sort, reverse, limit + 1 if limit else 0)))
        nothing = "" if found else none(log, f"{kind.name}s" if kind.name != "policy" else "policies")
    shown = found[:limit] if limit else found
    if json:
        print_json_array(shown)
    elif shown:
        table = [[_cell(name, row[name]) for name in columns] for row in shown]
        print_table(
            columns, table, right=[name for name in columns if name not in ("task", "tool", "policy", "classes")]
        )
    else:
        note(nothing)
    if len(found) > len(shown):
        note(f"there are more: --limit {limit * 4}, or 0 for all")


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name.endswith("_rate"):
        return f"{value:.1%}"
    if name == "pass_k":
        return " ".join(f"{chance:.2f}" for chance in value)
    if name == "classes":
        return ", ".join(f"{class_} {count:,}" for class_, count in value.items())
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value
