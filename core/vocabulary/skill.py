"""Skills and the scenario adapter: which guidance reached the planner, and which was held back."""

from __future__ import annotations

from typing import Annotated, ClassVar

from core.vocabulary.base import BlobRef, Open, Provisional


class SkillPublished(Provisional, frozen=True):
    """A version of a skill's folder is available."""

    home: ClassVar[str] = "skill/messaging"

    skill: Annotated[str, Open("its name", "messaging")]
    version: Annotated[str, Open("its version", "3")]
    digest: Annotated[str, Open("of the folder")]
    blob: Annotated[BlobRef | None, Open("the folder, packed")] = None


class SkillLoaded(Provisional, frozen=True):
    """A skill entered the context."""

    skill: Annotated[str, Open("its name", "messaging")]
    version: Annotated[str, Open("its version", "3")]
    step: Annotated[int, Open("in which step", 1)]
    tools: Annotated[list[str], Open("tools it exposed")] = []
    unknown_tools: Annotated[list[str], Open("tools it names that do not exist here")] = []


class SkillFiltered(Provisional, frozen=True):
    """A skill's entries were held back, because their tools are missing."""

    skill: Annotated[str, Open("its name", "messaging")]
    version: Annotated[str, Open("its version", "3")]
    missing: Annotated[list[str], Open("tools it needs that are not exposed", ["send_message"])]
    sections: Annotated[list[str], Open("what was held back; empty = all")] = []
    step: Annotated[int | None, Open("in which step")] = None


class AdapterCompiled(Provisional, frozen=True):
    """A version of the scenario adapter was built, offline."""

    home: ClassVar[str] = "adapter/default"

    version: Annotated[str, Open("its version", "12")]
    digest: Annotated[str, Open("of what was built")]
    tools_digest: Annotated[str, Open("of the tool schemas it was built from")]
    uncovered: Annotated[list[str], Open("deployed tools that no skill mentions")] = []
    overrides: Annotated[dict[str, str], Open("tools that two skills claim, and who won")] = {}
    skills: Annotated[dict[str, str], Open("skills in it and their versions")] = {}
    blob: Annotated[BlobRef | None, Open("what was built")] = None
