"""Pass rates of trials. A trial counts where it was judged pass or fail; anything else is no evidence."""

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

MOST_TRIALS: Final = 8
"""The largest k of pass^k that is kept."""


def summed(column: str) -> str:
    """SQL: the sum of a column, kept within bigint whatever the log says."""
    return f"greatest(least(coalesce(sum({column}), 0), 9e18), -9e18)::bigint AS {column}"


TRIALS: Final = f"""
count(*) AS episodes, count(*) FILTER (WHERE verdict = 'pass') AS passed,
count(*) FILTER (WHERE verdict = 'fail') AS failed, count(*) FILTER (WHERE verdict = 'unverified') AS unverified,
{summed("steps")}, count(tokens) AS counted, {summed("tokens")}, max(last_position) AS last_position
"""
"""The columns of `Trials`, summed over episodes."""


class Trials(NamedTuple):
    """Episodes counted by their verdicts. `counted` of them say how many tokens they took."""

    episodes: int = 0
    passed: int = 0
    failed: int = 0
    unverified: int = 0
    steps: int = 0
    counted: int = 0
    tokens: int = 0
    last_position: int = 0

    @property
    def judged(self) -> int:
        return self.passed + self.failed

    @property
    def undecided(self) -> int:
        """Judged, but neither pass nor fail."""
        return self.episodes - self.judged - self.unverified

    @property
    def rate(self) -> float | None:
        return self.passed / self.judged if self.judged else None

    @property
    def mean_steps(self) -> float:
        return self.steps / self.episodes

    @property
    def mean_tokens(self) -> float | None:
        return self.tokens / self.counted if self.counted else None


def total(parts: Iterable[Trials]) -> Trials:
    """All of them together."""
    *sums, positions = zip(*parts, strict=True)
    return Trials._make([*[sum(column) for column in sums], max(positions)])


def pass_k(cells: Iterable[Trials]) -> list[float]:
    """pass^k for k = 1, 2, …: the chance that k trials all pass, C(c, k) / C(n, k) for a cell of n judged
    trials of which c passed, averaged over the cells that have k of them (tau-bench, arXiv 2406.12045)."""
    counts = [(cell.passed, cell.judged) for cell in cells if cell.judged]
    found = []
    for k in range(1, min(max((n for _, n in counts), default=0), MOST_TRIALS) + 1):
        chances = [math.comb(c, k) / math.comb(n, k) for c, n in counts if n >= k]
        found.append(math.fsum(chances) / len(chances))
    return found
