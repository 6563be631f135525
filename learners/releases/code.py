"""The code that makes rows, and the guards that every build asks."""

from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from learners.heldout import HeldOut
    from learners.releases.sources import Open
    from learners.rows import RowView


def version() -> str:
    """This trajlog's."""
    import trajlog

    return str(trajlog.__version__)


def digest(view: "RowView") -> str:
    """SHA-256, hex, of the source that folds and reads the view."""
    found = sha256(f"{view.name}\0".encode())
    package = files("learners.views")
    for name in sorted(item.name for item in package.iterdir() if item.name.endswith(".py")):
        found.update(f"{name}\0".encode() + package.joinpath(name).read_bytes() + b"\0")
    return found.hexdigest()


def guard(sources: "Sequence[Open]") -> "HeldOut":
    """What is held out in these logs, and what is near that: of each row it says why it may not enter."""
    from learners.heldout import HeldOut

    return HeldOut({source.log_id: source.connection for source in sources})
