"""Whether the log is still the one that a checkpoint was folded from."""

from core.errors import Corrupt
from eventlog.projection import Checkpoint, Versioned


def refuse_another_log(point: Checkpoint) -> None:
    """`Corrupt` where the log is not the one that was folded up to the checkpoint."""
    if not point.trusted:
        raise another_log(point, point.position)


def another_log(projection: Versioned, position: int) -> Corrupt:
    name = projection.name.partition("/")[0]
    return Corrupt(
        f"the log is not the one that was folded up to position {position}: it was restored or failed over",
        where=f"projection {name} v{projection.version}",
        mend=f"rebuild it: trajlog project rebuild {name}",
    )
