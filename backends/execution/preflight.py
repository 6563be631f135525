"""What re-execution would do outside its environment, found out before anything is run."""

from collections.abc import Iterable
from typing import Any

import msgspec

from backends.contract import Manifest, Reach
from backends.execution.recorded import Episode
from core.vocabulary.contract import ToolCall


class Effect(msgspec.Struct, frozen=True):
    """Where recorded actions would reach: through which tools, how often, in how many episodes."""

    effect: Reach
    tools: list[str]
    calls: int
    episodes: int


def effects(planned: Iterable[tuple[Episode, Manifest]]) -> list[Effect]:
    """The effects of running these episodes in environments of these manifests."""
    found: dict[Reach, dict[str, Any]] = {}
    for episode, manifest in planned:
        for act in (*episode.prefix, *episode.acts):
            reach: list[Reach] = ["device"] if manifest.backend == "device" else []
            if isinstance(act.action, ToolCall):
                reach = list({*reach, *manifest.open_world.get(act.action.tool, ())})
            for one in reach:
                seen = found.setdefault(one, {"tools": set(), "calls": 0, "episodes": set()})
                seen["tools"].add(act.name)
                seen["calls"] += 1
                seen["episodes"].add(episode.id)
    return [
        Effect(reach, sorted(seen["tools"]), seen["calls"], len(seen["episodes"]))
        for reach, seen in sorted(found.items())
    ]
