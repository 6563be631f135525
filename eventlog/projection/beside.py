"""A projection under another name: what it is while it is rebuilt beside the one that is read."""

from typing import Any, cast, overload

from eventlog.projection import AnyProjection, Projection, SecondStage
from eventlog.projection.tables import NEW


class Beside:
    """Everything but its name is the original's."""

    def __init__(self, original: AnyProjection) -> None:
        self.name = original.name + NEW
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    @overload
    @staticmethod
    def of(original: Projection) -> Projection: ...
    @overload
    @staticmethod
    def of(original: SecondStage) -> SecondStage: ...
    @staticmethod
    def of(original: AnyProjection) -> AnyProjection:
        return cast("AnyProjection", Beside(original))


def module_of(projection: AnyProjection) -> str:
    """The module of the fold's class."""
    return type(projection._original if isinstance(projection, Beside) else projection).__module__
