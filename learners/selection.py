"""A recipe applied: which rows a release holds, why the others are left out, how the kept ones weigh.

A pure function of the rows, the recipe and what is held out. Where only some can stay, a row's rank decides:
a hash of its name and the seed, so that the same rows give the same choice on any machine, in whatever order
they came. Rows of which a recipe says nothing else are kept.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from core.errors import TrajlogError
from learners.choice import Choice, fits
from learners.recipe import Filters, Recipe
from learners.rows import Facts

_CHUNK = 1_000

Refuse = Callable[[Sequence[Facts]], Sequence[str | None]]
"""Says of rows why they may never enter, or None."""


class NotForTraining(TrajlogError):
    """A row of the split dev, audit or final."""


class Selection(NamedTuple):
    """What was chosen. `codes[i]` is 0 where row i (in the order given) is kept, else `reasons[codes[i]]`
    says why not. `weights` has one for each kept row, in order; their mean is 1."""

    codes: bytearray
    reasons: list[str]
    weights: "array[float]"

    @property
    def kept(self) -> int:
        return self.codes.count(0)

    @property
    def excluded(self) -> dict[str, int]:
        """How many rows were left out, by reason."""
        counts = Counter(self.codes)
        return {self.reasons[code]: counts[code] for code in sorted(counts, key=self.reasons.__getitem__) if code}


def select(rows: Iterable[Facts], recipe: Recipe, refuse: Refuse | None = None) -> Selection:
    """Choose. `NotForTraining` for a row of another split than train, whatever the recipe says."""
    chosen = Choice(recipe)
    tests = _tests(recipe.filters)
    iterator = iter(rows)
    while chunk := list(islice(iterator, _CHUNK)):
        reasons = [_unfit(row) or next((reason for reason, lets in tests if not lets(row)), None) for row in chunk]
        if refuse is not None:
            fit = [row for row, reason in zip(chunk, reasons, strict=True) if reason is None]
            refused = iter(refuse(fit) if fit else ())
            reasons = [next(refused) if reason is None else reason for reason in reasons]
        for row, reason in zip(chunk, reasons, strict=True):
            chosen.add(row, reason)
    chosen.settle()
    return Selection(chosen.codes, chosen.reasons, chosen.weights())


def _unfit(row: Facts) -> str | None:
    if row.split != "train":
        raise NotForTraining(
            f"it is of the split {row.split}, which is never trained on", where=f"{row.key.stream}@{row.key.version}"
        )
    if row.curated not in (None, "keep"):
        return f"curated: {row.curated}"
    return None if row.supervised else "nothing supervised"


def _tests(filters: Filters) -> list[tuple[str, Callable[[Facts], bool]]]:
    """The filters that a recipe sets: the reason of each, and whether it lets a row through."""
    found: list[tuple[str, Callable[[Facts], bool]]] = []
    for name, values in _VALUES.items():
        wanted, unwanted = getattr(filters, name), getattr(filters, f"not_{name}", None)
        if wanted is not None:
            found.append((f"filter: {name}", partial(_fits_one, values, tuple(wanted))))
        if unwanted is not None:
            found.append((f"filter: not_{name}", partial(_fits_none, values, tuple(unwanted))))
    for name, number in _LEAST.items():
        if (least := getattr(filters, f"min_{name}")) is not None:
            found.append((f"filter: min_{name}", partial(_at_least, number, least)))
    for name, number in _MOST.items():
        if (most := getattr(filters, f"max_{name}")) is not None:
            found.append((f"filter: max_{name}", partial(_at_most, number, most)))
    return found


_VALUES: Final[dict[str, Callable[[Facts], Sequence[str | None]]]] = {
    "task": lambda row: (row.task,),
    "source": lambda row: (row.source,),
    "origin": lambda row: (row.origin_label,),
    "policy": lambda row: (row.policy,),
    "environment": lambda row: (row.environment,),
    "judged_by": lambda row: (row.judged_by,),
    "tool": lambda row: row.plan,
}
_LEAST: Final[dict[str, Callable[[Facts], float | None]]] = {
    "reward": lambda row: row.reward,
    "supervised": lambda row: row.supervised,
}
_MOST: Final[dict[str, Callable[[Facts], float | None]]] = {
    "steps": lambda row: row.steps,
    "tokens": lambda row: row.tokens,
}


def _fits_one(values: Callable[[Facts], Sequence[str | None]], patterns: Sequence[str], row: Facts) -> bool:
    return any(fits(value, pattern) for value in values(row) for pattern in patterns)


def _fits_none(values: Callable[[Facts], Sequence[str | None]], patterns: Sequence[str], row: Facts) -> bool:
    return not _fits_one(values, patterns, row)


def _at_least(value: Callable[[Facts], float | None], least: float, row: Facts) -> bool:
    found = value(row)
    return found is not None and found >= least


def _at_most(value: Callable[[Facts], float | None], most: float, row: Facts) -> bool:
    found = value(row)
    return found is not None and found <= most
