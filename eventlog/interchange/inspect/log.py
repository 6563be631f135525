"""What the record of each sample of an Inspect log says of the log: the same in all, so read once."""

from collections.abc import Set
from functools import cached_property, lru_cache

import msgspec
from msgspec import Raw

from eventlog.interchange.inspect.scores import scales
from eventlog.interchange.mapping.messages import Fields
from eventlog.interchange.mapping.turns import NULL

_object = msgspec.json.Decoder(dict[str, Raw]).decode


class Log:
    """A log's `eval` and `plan`. `BadRecord` where a field is of another type, when it is asked for."""

    def __init__(self, data: bytes) -> None:
        given = _object(data)
        self._eval = Fields(given.get("eval", NULL), "", "eval")
        self._plan = Fields(given.get("plan", NULL), "", "plan")

    @cached_property
    def task(self) -> str:
        return self._eval.peek("task", str) or "inspect"

    @cached_property
    def model(self) -> str | None:
        return self._eval.peek("model", str)  # type: ignore[no-any-return]

    @cached_property
    def accuracies(self) -> Set[str]:
        """The scorers whose values are accuracies."""
        return scales(self._eval)

    @cached_property
    def seeds(self) -> dict[str, int]:
        configs = self._eval.peek("model_generate_config", dict[str, Raw]), self._plan.peek("config", dict[str, Raw])
        seeds = [config["seed"] for config in configs if config and "seed" in config]
        seed = msgspec.json.decode(seeds[0]) if seeds else None
        return {"model": seed} if isinstance(seed, int) and not isinstance(seed, bool) else {}

    @cached_property
    def versions(self) -> dict[str, str]:
        packages = self._eval.peek("packages", dict[str, Raw]) or {}
        given = {name: msgspec.json.decode(version) for name, version in packages.items()}
        given["task"] = self._eval.peek("task_version", int | str)
        return {name: str(version) for name, version in given.items() if version is not None}


@lru_cache(maxsize=8)
def log_of(data: bytes) -> Log:
    """The log that this is said of."""
    return Log(data)
