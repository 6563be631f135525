"""Why an episode failed, and what might mend the harness. Nothing is applied by itself."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Raw

from core.vocabulary.base import Open, Private, Provisional

FailureClass = Literal[
    "E0",  # environment
    "M1",  # decomposition
    "M2",  # routing
    "M3",  # parameters
    "M4",  # state tracking
    "M5",  # recovery
    "M6",  # premature end
    "H1",  # skill conflict
    "H2",  # tool exposure
    "H3",  # retrieval
    "H4",  # stale memory
    "H5",  # poisoned memory
    "H6",  # re-ingestion of recalled text
]

RevisionOf = Literal["tool_skill_map", "guidance", "memory_policy", "tool_exposure", "retrieval", "feedback_format"]


class FailureObserved(Provisional, frozen=True):
    """A rule was violated at a step."""

    failure: Annotated[FailureClass, Open("which kind")]
    step: Annotated[int, Open("where", 3)]
    rule: Annotated[str, Open("the rule and its version", "unknown_tool@1")]
    evidence: Annotated[list[str], Open("stream@version", ["episode/0192d3c4000070008000000000000001@6"])]
    recovered: Annotated[bool, Open("whether a later step made good")] = False


class DiagnosisProposed(Provisional, frozen=True):
    """The earliest violation never recovered from: environment before harness before model."""

    failure: Annotated[FailureClass, Open("which kind")]
    step: Annotated[int, Open("where", 3)]
    by: Annotated[Literal["rule", "judge"], Open("a rule, or a model where no rule can decide")]
    why: Annotated[str, Private("in words", "It called a tool that is not exposed")]
    evidence: Annotated[list[str], Open("stream@version")] = []
    confidence: Annotated[float | None, Open("0 to 1")] = None
    prior: Annotated[float | None, Open("how often this step is the culprit by its place alone")] = None


class DiagnosisReviewed(Provisional, frozen=True):
    """A person agreed or not."""

    diagnosis: Annotated[int, Open("version of the DiagnosisProposed", 40)]
    agreed: Annotated[bool, Open("whether it stands", True)]
    failure: Annotated[FailureClass | None, Open("what it is instead")] = None
    step: Annotated[int | None, Open("where instead")] = None
    why: Annotated[str | None, Private("in words")] = None


class RevisionProposed(Provisional, frozen=True):
    """A candidate change of the harness."""

    home: ClassVar[str] = "revision/v-1"

    revises: Annotated[RevisionOf, Open("what it would change")]
    change: Annotated[Raw, Open("the change", {"section": "messaging", "text": "Read the reply first."})]
    diagnoses: Annotated[list[str], Open("stream@version of what it answers")] = []


class RevisionEvaluated(Provisional, frozen=True):
    """The candidate was checked by rules and on the dev set."""

    home: ClassVar[str] = "revision/v-1"

    passed: Annotated[bool, Open("the rule checks", True)]
    before: Annotated[dict[str, float], Open("dev results without it", {"success": 0.61})]
    after: Annotated[dict[str, float], Open("dev results with it", {"success": 0.64})]


class RevisionReviewed(Provisional, frozen=True):
    """A person let the candidate in, or not."""

    home: ClassVar[str] = "revision/v-1"

    decision: Annotated[Literal["approve", "revise", "reject"], Open("what was decided")]
    version: Annotated[str | None, Open("of the harness that has it")] = None
    why: Annotated[str | None, Open("in words")] = None
