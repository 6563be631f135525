"""Projection `task`: one row per task, made from the episodes that attempt it.

Trials are repeated attempts of one policy: pass^k is taken within each policy and averaged. A group is
`mixed` if some of its rollouts passed and some failed: from those alone a policy can learn.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from eventlog.projection import Column, Row, Source
from eventlog.views import EPISODES, TASKS
from eventlog.views.rates import TRIALS, Trials, pass_k, total


class Task:
    """The second stage. Retracted episodes do not count."""

    name, version, *_ = TASKS
    reads = (Source(EPISODES, ("task",)),)
    query = f"""
SELECT task, policy, "group", {TRIALS}
FROM {{episode}} AS e WHERE NOT retracted GROUP BY task, policy, "group"
"""
    key = ("task",)
    columns: Sequence[Column] = (
        Column("task"),
        Column("episodes", "bigint"),
        Column("policies", "bigint"),
        Column("groups", "bigint"),
        Column("mixed", "bigint"),
        Column("passed", "bigint"),
        Column("failed", "bigint"),
        Column("undecided", "bigint"),
        Column("unverified", "bigint"),
        Column("pass_rate", "double precision"),
        Column("trials", "bigint"),
        Column("pass_k", "double precision[]"),
        Column("steps", "double precision"),
        Column("tokens", "double precision"),
        Column("last_position", "bigint"),
    )
    indexes = ("last_position",)

    def rows(self, key: Row, group: Sequence[Row]) -> Iterable[Row]:
        policies: defaultdict[str | None, list[Trials]] = defaultdict(list)
        groups = mixed = 0
        for _, policy, name, *counts in group:
            trials = Trials(*counts)
            policies[policy].append(trials)
            groups += name is not None
            mixed += name is not None and bool(trials.passed and trials.failed)
        cells = [total(parts) for parts in policies.values()]
        whole = total(cells)
        yield (
            *key,
            whole.episodes,
            sum(policy is not None for policy in policies),
            groups,
            mixed,
            whole.passed,
            whole.failed,
            whole.undecided,
            whole.unverified,
            whole.rate,
            max(cell.judged for cell in cells),
            pass_k(cells),
            whole.mean_steps,
            whole.mean_tokens,
            whole.last_position,
        )


TASK: Final = Task()
