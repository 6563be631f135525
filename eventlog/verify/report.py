"""What a verification found: problems, each named exactly, and what nobody can know."""

from typing import Final, Protocol

import msgspec

SEQ: Final = "seq"


class Problem(msgspec.Struct, frozen=True):
    """One break. Kinds: body, column, order, missing, inserted, segment, tree, blob: the log is
    damaged; receipt: it is not what a receipt covers; seq: a writer's numbering has a gap, which is
    data. Fields that do not apply are null."""

    kind: str
    position: int | None
    stream: str | None
    version: int | None
    detail: str


class Report(msgspec.Struct, frozen=True):
    """`ok` is false for any problem but `seq`. `position` and `root` are of the log as it was read."""

    ok: bool
    position: int
    root: str
    events: int
    streams: int
    segments: int
    problems: list[Problem]
    unknowable: list[str]


class Placed(Protocol):
    """An event's place: a stored event, or what is kept of one."""

    @property
    def position(self) -> int: ...
    @property
    def stream(self) -> str: ...
    @property
    def version(self) -> int: ...


class Findings:
    """Problems as they are found; an event that has been blamed is not blamed again for what follows."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.blamed: set[int] = set()

    def event(self, kind: str, event: Placed, detail: str) -> None:
        """Blame an event, unless it was blamed already."""
        if event.position not in self.blamed:
            self.blamed.add(event.position)
            self.problems.append(Problem(kind, event.position, event.stream, event.version, detail))

    def frame(self, kind: str, position: int, detail: str) -> None:
        """Blame a segment or tile by the position it ends or starts at, or a run of positions by the first."""
        self.problems.append(Problem(kind, position, None, None, detail))

    def stream(
        self, kind: str, stream: str, detail: str, *, position: int | None = None, version: int | None = None
    ) -> None:
        """Blame a stream, at a version where one is known."""
        self.problems.append(Problem(kind, position, stream, version, detail))

    def sorted(self) -> list[Problem]:
        """All problems in the order of the log; those of no position last."""
        return sorted(self.problems, key=lambda p: (p.position is None, p.position or 0, p.kind))

    @property
    def ok(self) -> bool:
        return all(problem.kind == SEQ for problem in self.problems)
