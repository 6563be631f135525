"""`trajlog groups`: groups of rollouts, and how many passed."""

from typing import Annotated, Any

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.output import note, print_json_array, print_table
from cli.settings import settings

_NAMES = ("group", "task", "policy", "split")
_COLUMNS = (*_NAMES, "rollouts", "passed", "failed", "undecided", "pass_rate", "steps", "tokens")


@command(
    "trajlog groups",
    "trajlog groups --mixed --sort rate",
    "trajlog groups --task airline/3 --policy planner-27b --json",
    "trajlog groups --as-of release-1",
)
def groups(
    task: options.Task = None,
    source: options.Source = None,
    policy: options.Policy = None,
    split: options.Split = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="Of which some rollouts passed and some failed.")] = False,
    sort: Annotated[
        str, typer.Option(help="By task, group or rate, rollouts, steps, tokens, latest (largest first).")
    ] = "task",
    reverse: options.Reverse = False,
    limit: options.Limit = 50,
    as_of: options.AsOf = None,
    json: Json = False,
) -> None:
    """List groups of rollouts with how many passed.

    A group is several rollouts of one task, compared with one another. Of a rollout's attempts the latest
    counts; `undecided` were judged neither pass nor fail, or not yet. Means are of what was recorded.

    JSON: [{group, task, policy, split, source, environment (null where its rollouts differ), rollouts, passed,
    failed, undecided, pass_rate, mixed, steps, tokens (written), cost (means), last_position, episodes: [{episode,
    rollout, attempt, counts, verdict, success: 0|1|null, reward, progress, steps, calls, errors, prompt_tokens,
    completion_tokens, cost, latency_ms, sampled_turns}]}].
    """
    from cli.reading import none, position_of, reading
    from learners.groups import Filters, Order
    from learners.groups import groups as listed
    from learners.views.rollout_group import ROLLOUT_GROUP

    chosen = options.one_of("--split", split, ("train", "dev", "audit", "final"))
    filters = Filters(task, policy, chosen, source, mixed)
    order = Order(sort, reverse, limit + 1 if limit else 0)
    with (
        settings().open() as log,
        reading(log, ROLLOUT_GROUP.projections, as_of=position_of(log, as_of)) as connection,
    ):
        found = list(listed(connection, filters, order))
        nothing = "" if found else none(log, "groups")
    shown = found[:limit] if limit else found
    if json:
        print_json_array(shown)
    elif shown:
        table = [[_cell(name, row[name]) for name in _COLUMNS] for row in shown]
        print_table(_COLUMNS, table, right=_COLUMNS[len(_NAMES) :])
    else:
        note(nothing)
    if len(found) > len(shown):
        note(f"there are more: --limit {limit * 4}, or 0 for all")


def _cell(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "pass_rate":
        return f"{value:.0%}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else value
