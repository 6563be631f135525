"""Memory: what was captured, accepted, replaced. A slot's stream is `memory/<keyed hash>`.

Every memory rests on quoted spans of raw evidence. A slot is replaced explicitly, in one event; what
concerns many slots is written into each.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Raw

from core.vocabulary.base import UNSET, MaybeRaw, Open, Part, Private, Provisional

MemoryClass = Literal[
    "user_model",  # compact, one value per slot
    "episodic",  # what happened; only ever added to
    "long_term",  # curated
    "prospective",  # intents
    "review",  # for the auditor only, never authoritative
]

Trust = Literal[
    "user",  # what the user said
    "system",  # what our own code observed
    "agent",  # what an agent inferred
    "external",  # what a tool or a page said
]


class _Memory(Provisional, frozen=True):
    home: ClassVar[str] = "memory/5f2c9a7be01d4c3388aa0f6d2b91e7c4"


class Span(Part, frozen=True):
    """Where in the raw evidence something is said, with the words."""

    stream: Annotated[str, Open("of the event that holds it", "episode/0192d3c4000070008000000000000001")]
    version: Annotated[int, Open("of that event", 3)]
    quote: Annotated[str, Private("the words, verbatim", "I prefer the window seat")]
    start: Annotated[int | None, Open("first character")] = None
    end: Annotated[int | None, Open("after the last character")] = None
    speaker: Annotated[str | None, Private("who said it")] = None
    turn: Annotated[int | None, Open("in which turn")] = None
    said_at: Annotated[str | None, Open("when, RFC 3339")] = None


class EvidenceCaptured(_Memory, frozen=True):
    """Raw evidence was put aside, before any context is compressed."""

    evidence: Annotated[str, Open("its id", "ev-1")]
    spans: Annotated[list[Span], Open("where it lies")]
    recalled: Annotated[bool, Open("it repeats recalled text, so it is no new evidence")] = False


class IngestionFailed(_Memory, frozen=True):
    """Evidence could not be turned into candidates; it is never replaced silently."""

    evidence: Annotated[str, Open("which", "ev-1")]
    stage: Annotated[Literal["ingestion", "summary", "fidelity"], Open("what failed")]
    why: Annotated[str, Open("the reason", "summary quotes no span")]


class CandidateProposed(_Memory, frozen=True):
    """Something that might be remembered."""

    candidate: Annotated[str, Open("its id", "c-1")]
    memory_class: Annotated[MemoryClass, Open("where it would go")]
    value: Annotated[Raw, Private("what would be remembered", {"seat": "window"})]
    spans: Annotated[list[Span], Open("what it rests on; without a quote it is rejected")]
    trust: Annotated[Trust, Open("lowest of its lineage, set by the server")]
    attribute: Annotated[str | None, Private("what it says something about")] = None
    model: Annotated[str | None, Open("which model extracted it")] = None


class CandidateVerified(_Memory, frozen=True):
    """The candidate passed the rules."""

    candidate: Annotated[str, Open("which", "c-1")]
    checks: Annotated[list[str], Open("rules it passed")] = []


class CandidateRejected(_Memory, frozen=True):
    """The candidate will not be remembered."""

    candidate: Annotated[str, Open("which", "c-1")]
    reason: Annotated[str, Open("which rule", "no_quote")]


class CandidateQuarantined(_Memory, frozen=True):
    """The candidate is kept aside for a review."""

    candidate: Annotated[str, Open("which", "c-1")]
    reason: Annotated[str, Open("which rule", "untrusted_source")]


class ConflictOpened(_Memory, frozen=True):
    """Two claims about one slot cannot both hold."""

    conflict: Annotated[str, Open("its id", "x-1")]
    claims: Annotated[list[str], Open("candidates and memories", ["m-17@1", "c-2"])]


class ConflictResolved(_Memory, frozen=True):
    """One of the claims holds."""

    conflict: Annotated[str, Open("which", "x-1")]
    kept: Annotated[str | None, Open("the claim that holds; null = none", "c-2")]
    rule: Annotated[str, Open("why", "user_over_inference")]


class MemoryAccepted(_Memory, frozen=True):
    """Something is remembered from now on."""

    memory_id: Annotated[str, Open("its id", "m-17")]
    version: Annotated[int, Open("of the memory", 1)]
    memory_class: Annotated[MemoryClass, Open("where it belongs")]
    value: Annotated[MaybeRaw, Private("what is remembered")] = UNSET
    value_ref: Annotated[str | None, Open("stream@version of what is remembered, if it is elsewhere")] = None
    slot: Annotated[str | None, Open("keyed hash of owner, subject and attribute")] = None
    valid_from: Annotated[str | None, Open("true from, RFC 3339")] = None
    valid_to: Annotated[str | None, Open("true until, RFC 3339")] = None
    importance: Annotated[float | None, Open("0 to 1")] = None
    trust: Annotated[Trust, Open("lowest of its lineage")] = "external"
    candidate: Annotated[str | None, Open("the candidate it was")] = None
    spans: Annotated[list[Span], Open("what it rests on")] = []


class MemorySuperseded(_Memory, frozen=True):
    """A newer memory took the slot."""

    old: Annotated[str, Open("memory@version", "m-17@1")]
    new: Annotated[str, Open("memory@version", "m-17@2")]
    rule: Annotated[str, Open("why", "later_statement")]


class MemoryRetracted(_Memory, frozen=True):
    """The memory does not hold and never should have."""

    memory: Annotated[str, Open("memory@version", "m-17@1")]
    why: Annotated[str, Open("the reason", "its source was retracted")]


class MemoryReinstated(_Memory, frozen=True):
    """A memory that had been replaced or retracted holds again."""

    memory: Annotated[str, Open("memory@version", "m-17@1")]
    why: Annotated[str, Open("the reason", "what replaced it was quarantined")]


class MemoryExpired(_Memory, frozen=True):
    """Its time is over."""

    memory: Annotated[str, Open("memory@version", "m-17@1")]


class MemoryQuarantined(_Memory, frozen=True):
    """The memory is withdrawn, its descendants before it."""

    memory: Annotated[str, Open("memory@version", "m-17@1")]
    why: Annotated[str, Open("the reason", "poisoned source")]
    root: Annotated[str | None, Open("the memory whose quarantine this follows from")] = None


class MemoryConsolidated(_Memory, frozen=True):
    """Several memories became one."""

    inputs: Annotated[list[str], Open("memory@version", ["m-17@1", "m-18@1"])]
    output: Annotated[str, Open("memory@version", "m-19@1")]
    dropped: Annotated[list[str], Open("memory@version that did not go in")] = []
    model: Annotated[str | None, Open("which model did it")] = None
    prompt_digest: Annotated[str | None, Open("of its prompt")] = None


class ShareProposed(_Memory, frozen=True):
    """A private memory might serve others."""

    share: Annotated[str, Open("its id", "s-1")]
    memory: Annotated[str, Open("memory@version", "m-17@1")]
    audience: Annotated[str, Open("who would see it", "workspace")]


class RedactionApplied(_Memory, frozen=True):
    """What points at a person was taken out."""

    share: Annotated[str, Open("which", "s-1")]
    text: Annotated[str, Private("what is left", "Prefers window seats")]
    rules: Annotated[list[str], Open("what was looked for")] = []


class MemoryShared(_Memory, frozen=True):
    """The redacted text is shared, after a review."""

    share: Annotated[str, Open("which", "s-1")]
    review: Annotated[str, Open("stream@version of the review", "review/r-1@2")]
