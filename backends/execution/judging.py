"""A run of recorded actions held against the record: what differs, what of that is cosmetic. Pure."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from backends.execution.comparing import compare
from backends.execution.recorded import Act, Episode
from backends.replaying import Replayed
from eventlog.comparison.differences import Difference, differences


class Judged(msgspec.Struct):
    """By the version of an action: `material` differences, those a mask hides (`hidden`, with its name),
    and `missing` where nothing was recorded. `run`: what was run; `varying`: tools that answered
    otherwise in a second run."""

    run: set[int] = msgspec.field(default_factory=set)
    material: dict[int, list[Difference]] = {}
    hidden: dict[int, list[tuple[Difference, str]]] = {}
    missing: set[int] = msgspec.field(default_factory=set)
    varying: set[str] = msgspec.field(default_factory=set)

    @property
    def differs(self) -> bool:
        return bool(self.material or self.hidden)

    @property
    def by_clock(self) -> bool:
        """Whether a difference may be the time that it is."""
        return any(rule == "time" for found in self.hidden.values() for _, rule in found)

    @property
    def cosmetic(self) -> Counter[str]:
        """How many differences each rule hides."""
        return Counter(rule for found in self.hidden.values() for _, rule in found)


def judge(episode: Episode, acts: Sequence[Act], run: Replayed, masks: tuple[str, ...]) -> Judged:
    """Compare what came back of each action, and the state after it, as far as both are known."""
    judged = Judged()
    for place, (act, actual) in enumerate(zip(acts, run.feedback, strict=False)):
        judged.run.add(act.version)
        if not act.comparable or act.feedback is None:
            judged.missing.add(act.version)
            continue
        found = compare(act.feedback, actual, imported=episode.imported)
        found = found or _state(episode, act, place, run.states)
        hidden = [(one, rule) for one in found if (rule := _rule(one, masks)) is not None]
        material = [one for one in found if _rule(one, masks) is None]
        if material:
            judged.material[act.version] = material
        if hidden:
            judged.hidden[act.version] = hidden
    return judged


def vary(judged: Judged, acts: Sequence[Act], first: Replayed, second: Replayed, *, imported: bool) -> None:
    """What a second run says of a first one: a masked difference is cosmetic only where the two runs differ
    as well; else the environment gives that value, and it is another than was recorded."""
    for act, one, another in zip(acts, first.feedback, second.feedback, strict=False):
        hidden = judged.hidden.get(act.version, [])
        if not hidden and act.version not in judged.material:
            continue
        changing = [found.path for found in compare(one, another, imported=imported)]
        if changing:
            judged.varying.add(act.name)
        settled = [found for found, _ in hidden if not any(_covers(path, found.path) for path in changing)]
        if settled:
            material = [*judged.material.get(act.version, []), *settled]
            judged.material[act.version] = material
            left = [(found, rule) for found, rule in hidden if found not in settled]
            judged.hidden[act.version] = left
            if not left:
                del judged.hidden[act.version]


def _state(episode: Episode, act: Act, place: int, states: list[str]) -> list[Difference]:
    """Where the state differs: before the first action, else after this one."""
    if place == 0 and states:
        before = episode.started.state or act.before
        if before is not None and states[0] != before:
            return [Difference("state_before", before, states[0])]
    after = states[place + 1] if place + 1 < len(states) else None
    if act.after is None or after is None or act.after == after:
        return []
    return [Difference("state_after", act.after, after)]


def _rule(found: Difference, masks: tuple[str, ...]) -> str | None:
    """The mask that hides a difference of two values."""
    if found.absent is not None or found.path.startswith("state_"):
        return None
    for name in masks:
        if not any(differences(found.a, found.b, (name,))):
            return name
    return masks[0] if masks and not any(differences(found.a, found.b, masks)) else None


def _covers(above: str, path: str) -> bool:
    return path == above or path.startswith((f"{above}.", f"{above}["))
