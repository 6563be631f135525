"""Near-duplicates of held-out tasks: how alike two goals are, with the plans that were followed for them.

A goal is taken apart into its words, without the commonest and cut to stems of five letters, and its values:
numbers and names. Likeness is ½ Jaccard of the words + 0.3 overlap of the values + 0.2 Jaccard of the plan's
pairs of consecutive tools; what one of the two does not have is left out and the rest scaled. So a rewording
is a near-duplicate, but the same wish with other values, which is another task, mostly isn't.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

THRESHOLD: Final = 0.5
"""From here on two tasks are near-duplicates."""

MIN_WORDS: Final = 0.15
"""Jaccard of the words below which nothing else counts."""

MEASURED: Final[dict[str, Any]] = {
    "on": "24 made goals for a phone, with plans: three rewordings of each, and a sibling with other values",
    "missed": {"light": 0.0, "medium": 0.0, "heavy": 0.5417},
    "missed_without_plan": {"light": 0.0, "medium": 0.0, "heavy": 0.7917},
    "false": {"sibling": 0.1667, "other": 0.0},
}
"""What the threshold misses, and takes for a near-duplicate that is none, as a share: measured on a made set
(tests/learners/paraphrases.py, by test_duplicates.py)."""

_WORD = re.compile(r"\w+(?:[:.\-'’]\w+)*|[.!?;\n]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_COMMON = frozenset(
    {"a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "for", "from", "i", "in", "is", "it", "me"}
    | {"my", "of", "on", "or", "please", "so", "that", "the", "then", "this", "to", "want", "with", "would", "you"}
    | {"your"}
)
_CARDINALS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBERS: Final = {word: str(number) for number, word in enumerate(_CARDINALS)} | {
    "fifteen": "15",
    "twenty": "20",
    "thirty": "30",
    "first": "1",
    "second": "2",
    "third": "3",
    "twentieth": "20",
}
_PRONOUNS = frozenset({"i", "i'm", "i've", "i'll", "i'd"})
_STEM = 5


class Signature(NamedTuple):
    """What two tasks are compared by."""

    words: frozenset[str]
    values: frozenset[str]
    plan: frozenset[tuple[str, str]]


def signature(goal: str, plan: Sequence[str] = ()) -> Signature:
    """Of a goal, and the tools that were called for it, in order."""
    words, values = _taken_apart(goal)
    return Signature(words, values, frozenset(pairwise(["", *plan, ""])) if plan else frozenset())


def likeness(one: Signature, other: Signature) -> float:
    """0 to 1; 0 where too few words are the same."""
    words = _jaccard(one.words, other.words)
    if words < MIN_WORDS:
        return 0.0
    total, weight = 0.5 * words, 0.5
    if one.values and other.values:
        total += 0.3 * len(one.values & other.values) / min(len(one.values), len(other.values))
        weight += 0.3
    if one.plan and other.plan:
        total += 0.2 * _jaccard(one.plan, other.plan)
        weight += 0.2
    return total / weight


class Index:
    """Signatures with labels, found by their words."""

    def __init__(self) -> None:
        self._known: dict[Signature, str] = {}
        self._listed: list[tuple[Signature, str]] = []
        self._by_word: defaultdict[str, list[int]] = defaultdict(list)

    def __len__(self) -> int:
        return len(self._listed)

    def add(self, found: Signature, label: str) -> None:
        """One more. Of equal signatures the first keeps its label."""
        if not found.words or found in self._known:
            return
        self._known[found] = label
        for word in found.words:
            self._by_word[word].append(len(self._listed))
        self._listed.append((found, label))

    def nearest(self, wanted: Signature) -> tuple[float, str] | None:
        """The most alike of those that are near-duplicates, and how alike; None if none is."""
        best: tuple[float, str] | None = None
        shared = Counter(chain.from_iterable(self._by_word[word] for word in wanted.words if word in self._by_word))
        for at, count in shared.items():
            found, label = self._listed[at]
            if count < MIN_WORDS * (len(wanted.words) + len(found.words) - count):
                continue
            alike = likeness(wanted, found)
            if alike >= THRESHOLD and (best is None or (-alike, label) < (-best[0], best[1])):
                best = alike, label
        return best


@lru_cache(maxsize=10_000)
def _taken_apart(goal: str) -> tuple[frozenset[str], frozenset[str]]:
    words: set[str] = set()
    values: set[str] = set()
    begins = True
    for found in _WORD.findall(unicodedata.normalize("NFKC", goal)):
        if found in ".!?;\n":
            begins = True
            continue
        word = found.casefold().replace("’", "'").removesuffix("'s")
        number = _NUMBERS.get(word)
        if any(letter.isdigit() for letter in word) or (number is not None and number != "1"):
            values.add(number or word)
        elif not begins and found[0].isupper() and word not in _PRONOUNS:
            values.add(word)
        begins = False
        if word not in _COMMON:
            words.update(_parts(number or word))
    return frozenset(words), frozenset(values)


def _parts(word: str) -> Sequence[str]:
    """A word's stem; pairs of letters where a language has no spaces."""
    if not _UNSPACED.search(word):
        return [word if word[0].isdigit() else word[:_STEM]]
    return [word[i : i + 2] for i in range(max(len(word) - 1, 1))]


def _jaccard(one: frozenset[Any], other: frozenset[Any]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
