"""Inspect's scores as external checks.

`C`, `I`, `P` and `N` (correct, incorrect, partial, no answer) mean the same everywhere. A number says
pass or fail only where the scorer's metric is accuracy, whose scale is 0 to 1. Partly done is not done.
"""

from collections.abc import Set
from typing import Any

import msgspec
from msgspec import Raw

from core.vocabulary.base import Verdict
from core.vocabulary.contract import Check
from core.vocabulary.episode import VerificationRecorded
from eventlog.interchange.inspect.fields import inner
from eventlog.interchange.mapping import verdicts
from eventlog.interchange.mapping.lenient import soft
from eventlog.interchange.mapping.messages import Fields, shallow
from eventlog.interchange.mapping.turns import NULL, short

_OBJECT = dict[str, Raw]
_whole = msgspec.json.Decoder().decode
_LETTERS: dict[str, tuple[Verdict, float]] = {
    "C": ("pass", 1.0),
    "I": ("fail", 0.0),
    "P": ("fail", 0.5),
    "N": ("fail", 0.0),
}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
OLD_SCORER = "score"
"""What the one score of an old log is called, which names no scorer."""


def scales(spec: Fields) -> Set[str]:
    """The scorers whose values are accuracies."""
    found = set()
    for scorer in spec.peek("scorers", list[dict[str, Raw]]) or []:
        name = msgspec.json.decode(scorer.get("name", b"null"))
        if isinstance(name, str) and any(metric.rpartition("/")[2] == "accuracy" for metric in _names(scorer)):
            found.add(name)
    return found


def scores_of(sample: Fields) -> dict[str, Raw]:
    """A sample's scores by their scorers."""
    scores: dict[str, Raw] = soft(sample, "scores", _OBJECT) or {}
    inner(sample, "scores")  # BadRecord if they are still there: they are no object
    old = sample.raw(OLD_SCORER)
    if old is not None and old != NULL:
        scores[OLD_SCORER] = old
    return scores


def verification(scores: dict[str, Raw], accuracies: Set[str], where: str) -> VerificationRecorded | None:
    """The judgement that a sample's scores make together; None if it has none."""
    if not scores:
        return None
    checks: list[Check] = []
    rewards: list[float | None] = []
    why: str | None = None
    for name, score in scores.items():
        held = shallow(score)
        fields = held if isinstance(held, dict) else {"value": score}
        value = _whole(fields.get("value", NULL))
        verdict, reward = _judged(value, name, name in accuracies)
        checks.append(verdicts.quoted(name, verdict, score))
        rewards.append(reward)
        said = "explanation" in fields
        why = Fields(fields, where, f"scores.{name}").peek("explanation", str) if said else None
    alone = len(checks) == 1
    reward = rewards[0] if alone else None
    known = checks[0].verdict != "inconclusive"
    progress = reward if alone and known and reward is not None and 0 < reward < 1 else None
    return verdicts.verification(checks, reward=reward, progress=progress, why=short(why) if alone else None)


def _judged(value: Any, name: str, is_accuracy: bool) -> tuple[Verdict, float | None]:
    """What a value says, and as a number, as Inspect itself counts it."""
    if isinstance(value, str) and value in _LETTERS:
        return _LETTERS[value]
    if isinstance(value, bool):
        verdict: Verdict = ("pass" if value else "fail") if is_accuracy else verdicts.by_boolean(name, value)
        return verdict, float(value)
    if isinstance(value, str) and is_accuracy:
        value = _WORDS.get(value.strip().lower(), value)
    if isinstance(value, int | float):
        if not is_accuracy or not 0 <= value <= 1:
            return "inconclusive", float(value)
        return "pass" if value == 1 else "fail", float(value)
    return verdicts.by_label(value), None


def _names(scorer: dict[str, Raw]) -> list[str]:
    """The names of a scorer's metrics, whether they are listed or grouped."""
    metrics = msgspec.json.decode(scorer.get("metrics", b"[]"))
    grouped = metrics.values() if isinstance(metrics, dict) else [metrics]
    listed = [metric for group in grouped for metric in (group if isinstance(group, list) else [group])]
    return [name for metric in listed if isinstance(metric, dict) and isinstance(name := metric.get("name"), str)]
