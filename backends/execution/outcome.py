"""What a re-execution found, as data."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from core.vocabulary.replay import Divergence
from eventlog.comparison.differences import Difference
from eventlog.wording import show

SAME: Final = 0
DIVERGED: Final = 1
INCOMPLETE: Final = 3

Exit = Literal[0, 1, 3]
"""0: the same; 1: diverged; 3: incomplete: something could not be compared, or the episode not be run."""

_INDEX = re.compile(r"\[\d+\]")
_SHOWN = 60


class Diverged(msgspec.Struct, frozen=True):
    """One action whose feedback or state came out otherwise: the first place where it does. `after`: the
    version of the episode's first divergent action, where this is a later one."""

    version: int
    step: int
    tool: str
    path: str
    expected: Any
    actual: Any
    class_: Divergence = msgspec.field(name="class")
    after: int | None = None


class Executed(msgspec.Struct, frozen=True, kw_only=True):
    """One episode, run again. `steps` are those with actions that were run, `same` those of them of which
    everything came again; `masked` counts the cosmetic differences in them. `lacking`: tools it calls that
    the environment has not (if it was not run: all of them); `nondeterministic`: tools that answered
    otherwise when they were run once more; `why`: what kept it from being run."""

    episode: str
    env: str | None
    steps: int = 0
    same: int = 0
    masked: int = 0
    diverged: list[Diverged] = []
    exit: Exit = SAME
    lacking: list[str] = []
    nondeterministic: list[str] = []
    why: str | None = None


class Group(msgspec.Struct, frozen=True):
    """Episodes that diverge first in the same field of the same tool."""

    tool: str
    path: str
    class_: Divergence = msgspec.field(name="class")
    episodes: int


class Summary(msgspec.Struct, frozen=True):
    """Many episodes, run again."""

    episodes: int
    same: int
    diverged: int
    incomplete: int
    by: list[Group]
    results: list[Executed]


def summary(results: list[Executed]) -> Summary:
    """The counts, and the drift by tool and field: the first divergence of each episode counts."""
    firsts = (next((one for one in result.diverged if one.after is None), None) for result in results)
    groups = Counter((one.tool, field(one.path), one.class_) for one in firsts if one is not None)
    by = [Group(*key, count) for key, count in sorted(groups.items(), key=lambda item: (-item[1], item[0]))]
    exits = Counter(result.exit for result in results)
    return Summary(len(results), exits[SAME], exits[DIVERGED], exits[INCOMPLETE], by, results)


def exit_code(results: Iterable[Executed]) -> int:
    """Of the command: a divergence outweighs what is incomplete."""
    exits = {result.exit for result in results}
    return DIVERGED if DIVERGED in exits else INCOMPLETE if INCOMPLETE in exits else SAME


def field(path: str) -> str:
    """A path without the places in lists, so that rows of a list fall together."""
    return _INDEX.sub("[*]", path)


def line(one: Diverged, found: list[Difference]) -> str:
    """A divergence in words: members that came or went by their names, anything else by its values."""
    parent, key = _parent(one.path)
    if key is not None and found and found[0].absent is not None:
        gone = [f"-{name}" for name in _members(found, parent, "b")]
        come = [f"+{name}" for name in _members(found, parent, "a")]
        return f"{parent}: {' '.join([*gone, *come])}"
    return f"{one.path}: -{show(one.expected, _SHOWN)} +{show(one.actual, _SHOWN)}"


def _members(found: list[Difference], parent: str, absent: str) -> list[str]:
    places = [_parent(one.path) for one in found if one.absent == absent]
    return [key for at, key in places if at == parent and key is not None]


def _parent(path: str) -> tuple[str, str | None]:
    """The object that a path leads into, and the member's name; None for what is no member."""
    cut = re.fullmatch(r'(?P<parent>.+?)(?:\.(?P<plain>[A-Za-z_]\w*)|\[(?P<quoted>"(?:[^"\\]|\\.)*")\])', path)
    if cut is None:
        return path, None
    return cut["parent"], cut["plain"] or msgspec.json.decode(cut["quoted"])
