"""Scores of other tools, quoted as external checks, and the verdict that they allow.

A score says pass or fail only where its scale is known. Any other is quoted as inconclusive and
decides nothing: a number does not say by itself whether more of it is better.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from core.vocabulary.base import Verdict
from core.vocabulary.contract import Check, Verification
from core.vocabulary.episode import VerificationRecorded

_LABELS: dict[str, Verdict] = {
    "pass": "pass",
    "passed": "pass",
    "success": "pass",
    "correct": "pass",
    "fail": "fail",
    "failed": "fail",
    "failure": "fail",
    "incorrect": "fail",
}
_SUCCESS = frozenset(
    {
        "pass",
        "passed",
        "success",
        "successful",
        "succeeded",
        "correct",
        "correctness",
        "resolved",
        "solved",
        "accuracy",
        "task_success",
        "task_completed",
        "goal_achieved",
    }
)


def quoted(name: str, verdict: Verdict, score: Raw, *, decides: bool = True) -> Check:
    """A score as an external check; an inconclusive one never decides."""
    gates = decides and verdict in ("pass", "fail")
    return Check(name, "external", verdict, gates=gates, detail=score)


def by_label(label: object) -> Verdict:
    """What a label says that means pass or fail everywhere."""
    return _LABELS.get(label.strip().lower(), "inconclusive") if isinstance(label, str) else "inconclusive"


def by_boolean(name: str, value: bool) -> Verdict:
    """What a yes or no says under a name that means success; under another, such as `toxic`, nothing."""
    if name.strip().lower().replace("-", "_").replace(" ", "_") not in _SUCCESS:
        return "inconclusive"
    return "pass" if value else "fail"


def verification(
    checks: Sequence[Check], *, reward: float | None = None, progress: float | None = None, why: str | None = None
) -> VerificationRecorded:
    """The verdict: what decides must all pass; without any that decides it is inconclusive."""
    deciding = {check.verdict for check in checks if check.gates}
    verdict: Verdict = "fail" if "fail" in deciding else "pass" if deciding else "inconclusive"
    judged = Verification(verdict, list(checks), reward=reward, progress=progress)
    return VerificationRecorded(judged, source="import", why=why)


def number(raw: Raw) -> float | None:
    """The number that JSON holds; None if it is something else."""
    value = msgspec.json.decode(raw)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
