"""What re-execution found: recorded actions run again, every feedback and state digest compared."""

from __future__ import annotations

from typing import Annotated, Literal

from core.vocabulary.base import UNSET, MaybeRaw, Open, Payload, Private

Divergence = Literal[
    "environment_drift",  # the same action, another world
    "agent_nondeterminism",  # the same context, another action
    "code_change",  # another version of our own code
    "missing_observation",  # nothing to compare with
]


class DivergenceFound(Payload, frozen=True):
    """A feedback or state that differs from the recorded one."""

    execution: Annotated[str, Open("id of the re-execution", "nightly-2026-01-02")]
    action: Annotated[int, Open("version of the ActionSubmitted that was run again", 4)]
    step: Annotated[int, Open("its step", 2)]
    path: Annotated[str, Open("JSON path of the difference", "$.address.province")]
    divergence: Annotated[Divergence, Open("what kind of difference")]
    tool: Annotated[str | None, Open("the tool called")] = None
    expected: Annotated[MaybeRaw, Private("as recorded")] = UNSET
    actual: Annotated[MaybeRaw, Private("as it is now")] = UNSET
    after: Annotated[int | None, Open("version of the first divergent action, if this is not it")] = None


class EpisodeReexecuted(Payload, frozen=True):
    """An episode's actions were run again."""

    execution: Annotated[str, Open("id of the re-execution", "nightly-2026-01-02")]
    environment: Annotated[str, Open("where", "sandbox@3")]
    compared: Annotated[int, Open("feedbacks compared", 12)]
    divergences: Annotated[int, Open("how many differ beyond the cosmetic", 0)]
    cosmetic: Annotated[dict[str, int], Open("differences ignored, by rule and its version")] = {}
    versions: Annotated[dict[str, str], Open("of code, model and environment")] = {}
