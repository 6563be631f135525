"""`trajlog tasks`: what episodes say about each task."""

from typing import Annotated

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.summary import summarise

_COLUMNS = (
    "task",
    "episodes",
    "groups",
    "mixed",
    "passed",
    "failed",
    "undecided",
    "unverified",
    "pass_rate",
    "pass_k",
    "steps",
    "tokens",
)


@command(
    "trajlog tasks",
    "trajlog tasks --sort rate --limit 20",
    "trajlog tasks --policy planner-27b --since 7d --json",
    "trajlog tasks --as-of release-1",
)
def tasks(
    task: options.Task = None,
    source: options.Source = None,
    policy: options.Policy = None,
    split: options.Split = None,
    import_: options.Import = None,
    since: options.Since = None,
    until: options.Until = None,
    sort: Annotated[
        str, typer.Option(help="By task, rate or steps, tokens, episodes, failed, mixed, latest (largest first).")
    ] = "task",
    reverse: options.Reverse = False,
    limit: options.Limit = 50,
    as_of: options.AsOf = None,
    json: Json = False,
) -> None:
    """List tasks with their pass rates.

    A rate is of the episodes judged pass or fail; `undecided` were judged otherwise. pass_k is pass^1,
    pass^2, …: the chance that k trials by one policy all pass. `groups` counts the groups of rollouts,
    `mixed` those of which some passed and some failed. Filters choose the episodes that count.

    JSON: [{task, episodes, policies, groups, mixed, passed, failed, undecided, unverified, pass_rate, trials,
    pass_k: [number], steps, tokens (means), last_position}].
    """
    from eventlog.views.summaries import TASK_LIST

    summarise(
        TASK_LIST,
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
