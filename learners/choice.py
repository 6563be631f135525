"""A choice among many rows under caps and shares, of each of which a few numbers are kept."""

from array import array
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from fractions import Fraction
from hashlib import blake2b
from math import ceil, fsum, prod
from typing import Final, NamedTuple

from learners.ascending import ascending
from learners.recipe import DIMENSIONS, Dimension, Recipe
from learners.rows import Facts

KEPT: Final = "kept"
_SOME: Final = 10_000


class _Limit(NamedTuple):
    """At most so many rows under one counter."""

    counter: tuple[str, str]
    most: int


class Choice:
    """Rows, and of each why it is left out. `codes` has one for each row: 0 if it is kept, else the index of
    the reason."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._by = recipe.same
        self._seed = recipe.seed
        self.codes = bytearray()
        self.reasons = [KEPT]
        self._ranks: array[int] = array("Q")
        self._same: array[int] = array("Q")
        self._values: dict[Dimension, dict[str | None, int]] = {}
        self._columns: dict[Dimension, array[int]] = {}
        for dimension in DIMENSIONS:
            if (
                dimension in recipe.weights.balance
                or any(getattr(table, dimension) for table in (recipe.caps, recipe.shares, recipe.weights))
                or getattr(recipe.caps, dimension) == 0
            ):
                self._values[dimension] = {}
                self._columns[dimension] = array("L")

    def add(self, row: Facts, reason: str | None) -> None:
        """One more row; `reason` says why it is left out already."""
        self.codes.append(0 if reason is None else self._code(reason))
        if self._by or self._columns:
            self._ranks.append(_hash(f"{self._seed}\0{row.key.stream}\0{row.key.version}\0{row.key.row}"))
        if self._by:
            self._same.append(_hash("\0".join([_spelled(row, name) for name in self._by])))
        for dimension, column in self._columns.items():
            values = self._values[dimension]
            column.append(values.setdefault(_value(row, dimension), len(values)))

    def settle(self) -> None:
        """Leave out duplicates, then what is beyond a cap, then beyond a share."""
        limits = {dimension: self._limits(dimension) for dimension in self._columns}
        if self._by or any(any(found) for found in limits.values()):
            self._dedup_and_cap(limits)
        self._keep_shares()

    def weights(self) -> "array[float]":
        """One for each kept row, their mean 1."""
        factors = [self._weights(dimension) for dimension in self._columns]
        if not factors:
            return array("d", [1.0]) * self.codes.count(0)
        found = array("d", (prod(by[column[i]] for column, by in factors) for i in self._kept()))
        mean = fsum(found) / len(found) if found else 1.0
        return array("d", (weight / mean for weight in found))

    def _dedup_and_cap(self, limits: dict[Dimension, list[list[_Limit]]]) -> None:
        """Going by rank, keep the first of equal rows, and of those rows as long as no cap is reached."""
        if self._by:
            duplicate = f"duplicate: {', '.join(self._by)}"
            last = None
            for i in self._by_rank(self._same):
                if self._same[i] == last:
                    self.codes[i] = self._code(duplicate)
                last = self._same[i]
        if not any(any(found) for found in limits.values()):
            return
        counts: Counter[tuple[str, str]] = Counter()
        for i in self._by_rank():
            here = [limit for name, found in limits.items() for limit in found[self._columns[name][i]]]
            full = next((limit for limit in here if counts[limit.counter] >= limit.most), None)
            if full is not None:
                self.codes[i] = self._code(f"cap: {full.counter[0]}")
                continue
            for limit in here:
                counts[limit.counter] += 1

    def _limits(self, dimension: Dimension) -> list[list[_Limit]]:
        """The caps that each value of a dimension counts under."""
        cap = getattr(self.recipe.caps, dimension)
        if isinstance(cap, int):
            return [[_Limit((dimension, str(code)), cap)] for code in self._values[dimension].values()]
        named = sorted((cap or {}).items())
        return [
            [_Limit((dimension, f"={name}"), most) for name, most in named if fits(value, name)]
            for value in self._values[dimension]
        ]

    def _keep_shares(self) -> None:
        """Leave out rows, the last by rank first, until no share is exceeded: the most rows that allow it."""
        shares = [
            (dimension, name, Fraction(str(share)))
            for dimension in self._columns
            for name, share in sorted(getattr(self.recipe.shares, dimension).items())
        ]
        if not shares:
            return
        order = list(self._by_rank())
        total = len(order)
        members = []
        for dimension, name, _ in shares:
            fit = [fits(value, name) for value in self._values[dimension]]
            members.append([i for i in order if fit[self._columns[dimension][i]]])
        exceeded = True
        while exceeded:
            exceeded = False
            for at, (dimension, name, share) in enumerate(shares):
                rows = [i for i in members[at] if not self.codes[i]]
                excess = max(ceil((len(rows) - share * total) / (1 - share)), 0)
                members[at] = rows[: len(rows) - excess]
                for i in rows[len(rows) - excess :]:
                    self.codes[i] = self._code(f"share: {dimension} {name}")
                total -= excess
                exceeded |= excess > 0

    def _weights(self, dimension: Dimension) -> tuple["array[int]", list[float]]:
        """The column of a dimension, and the weight of each of its values."""
        column = self._columns[dimension]
        given = sorted(getattr(self.recipe.weights, dimension).items())
        found = [
            float(prod(weight for name, weight in given if fits(value, name))) for value in self._values[dimension]
        ]
        if dimension in self.recipe.weights.balance:
            counts = Counter(column[i] for i in self._kept())
            found = [weight / max(counts[code], 1) for code, weight in enumerate(found)]
        return column, found

    def _kept(self) -> Iterator[int]:
        """The rows that are kept so far."""
        return (i for i, code in enumerate(self.codes) if not code)

    def _by_rank(self, *first: "array[int]") -> Iterator[int]:
        """The rows that are kept so far by rank, or by another column first."""
        import pyarrow as pa
        import pyarrow.compute as pc

        codes = bytes(self.codes)

        def keys(start: int, end: int) -> "tuple[pa.Array, list[pa.Array]]":
            kept = pa.Array.from_buffers(pa.uint8(), end - start, [None, pa.py_buffer(codes[start:end])])
            rows = pc.indices_nonzero(pc.equal(kept, 0))
            found = [
                pa.Array.from_buffers(pa.uint64(), end, [None, pa.py_buffer(key)]).slice(start).take(rows)
                for key in (*first, self._ranks)
            ]
            return pc.add(rows, start), found

        for rows in ascending(len(codes), keys):
            for some in range(0, len(rows), _SOME):
                yield from rows.slice(some, _SOME).to_pylist()

    def _code(self, reason: str) -> int:
        if reason in self.reasons:
            return self.reasons.index(reason)
        if len(self.reasons) == 255:
            reason = "another reason"
            if reason in self.reasons:
                return self.reasons.index(reason)
        self.reasons.append(reason)
        return len(self.reasons) - 1


def fits(value: str | None, name: str) -> bool:
    """Whether a value is the one that is named, or fits the pattern."""
    return value is not None and (value == name or ("*" in name and fnmatchcase(value, name)))


def _value(row: Facts, dimension: str) -> str | None:
    found: str | None = row.origin_label if dimension == "origin" else getattr(row, dimension)
    return found


def _spelled(row: Facts, name: str) -> str:
    if name == "content":
        return row.content.hex()
    return repr(row.plan) if name == "plan" else repr(_value(row, name))


def _hash(said: str) -> int:
    return int.from_bytes(blake2b(said.encode(errors="surrogatepass"), digest_size=8).digest(), "big")
