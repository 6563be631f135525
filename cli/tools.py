"""`trajlog tools`: what episodes say about each tool."""

from typing import Annotated

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.summary import summarise

_COLUMNS = (
    "tool",
    "episodes",
    "calls",
    "errors",
    "error_rate",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "max_ms",
    "classes",
)


@command(
    "trajlog tools",
    "trajlog tools --sort rate",
    "trajlog tools --policy planner-27b --task airline/3 --json",
)
def tools(
    task: options.Task = None,
    source: options.Source = None,
    policy: options.Policy = None,
    split: options.Split = None,
    import_: options.Import = None,
    since: options.Since = None,
    until: options.Until = None,
    sort: Annotated[str, typer.Option(help="By calls, errors, rate, mean or p95 (largest first), or tool.")] = "calls",
    reverse: options.Reverse = False,
    limit: options.Limit = 50,
    as_of: options.AsOf = None,
    json: Json = False,
) -> None:
    """List tools with their calls, errors and latency.

    A touch counts as a tool by its op. Errors are of the calls that were answered; percentiles are within
    3.2 %. Filters choose the episodes that count.

    JSON: [{tool, episodes, calls, answers, errors, error_rate, classes: {class: count}, mean_ms, p50_ms,
    p95_ms, max_ms}].
    """
    from eventlog.views.summaries import TOOL_LIST

    summarise(
        TOOL_LIST,
        _COLUMNS,
        order=(sort, reverse, limit),
        as_of=as_of,
        json=json,
        task=task,
        source=source,
        policy=policy,
        split=split,
        import_=import_,
        since=since,
        until=until,
    )
