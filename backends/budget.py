"""What an episode may use up, and what it has.

Steps are counted by their numbers; of every other limited dimension each step charges what it took, as
`BudgetCharged`, so that an episode that is gone on with goes on paying.
"""

import time
from typing import Final

from core.vocabulary.contract import Budget as Dimension
from core.vocabulary.episode import BudgetCharged

STEPS: Final = 100
"""Steps of a task that names no limit."""

_ORDER: Final[tuple[Dimension, ...]] = ("steps", "tokens", "wall", "money", "device_s")


class Budget:
    """One episode's. Wall time is in seconds and runs from the moment this is made."""

    def __init__(self, limits: dict[Dimension, float]) -> None:
        self.limits: dict[Dimension, float] = {"steps": STEPS, **limits}
        self.used: dict[Dimension, float] = dict.fromkeys(_ORDER, 0.0)
        self._mark = time.monotonic()
        self._uncharged: dict[Dimension, float] = {}

    def spend(self, dimension: Dimension, amount: float | None) -> None:
        """Use some up; it is charged with the next `charge`."""
        if amount:
            self.used[dimension] += amount
            self._uncharged[dimension] = self._uncharged.get(dimension, 0.0) + amount

    def replay(self, charged: BudgetCharged) -> None:
        """What an earlier process of this episode charged. Tokens are counted as they were spent."""
        if charged.dimension != "tokens":
            self.used[charged.dimension] += charged.amount

    def settle(self) -> None:
        """Nothing is left to be charged: it was, by an earlier process."""
        self._uncharged = {}
        self._mark = time.monotonic()

    def charge(self, step: int) -> list[BudgetCharged]:
        """What the step took of the limited dimensions."""
        now = time.monotonic()
        self.spend("wall", round(now - self._mark, 6))
        self._mark = now
        charged = [
            BudgetCharged(dimension, amount, self.left(dimension), step)
            for dimension, amount in self._uncharged.items()
            if dimension in self.limits and dimension != "steps"
        ]
        self._uncharged = {}
        return charged

    def left(self, dimension: Dimension) -> float | None:
        """What remains; None where there is no limit."""
        if dimension not in self.limits:
            return None
        used = self.used[dimension]
        if dimension == "wall":
            used += time.monotonic() - self._mark
        return round(max(0.0, self.limits[dimension] - used), 6)

    def exhausted(self, steps: int) -> Dimension | None:
        """The first dimension that is used up, `steps` having been taken."""
        self.used["steps"] = steps
        for dimension in _ORDER:
            left = self.left(dimension)
            if left is not None and left <= 0:
                return dimension
        return None

    def within(self, seconds: float) -> float:
        """A deadline cut to the wall time that is left."""
        left = self.left("wall")
        return seconds if left is None else max(0.001, min(seconds, left))
