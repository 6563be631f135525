"""The projections that training reads. `sft_row` and `rollout_group` are what releases are made of;
`rollout` has a row per episode, for groups and for what is held out."""

from typing import TYPE_CHECKING, Final

from core.errors import UsageError
from eventlog.projection import View
from eventlog.views import PREFIX

if TYPE_CHECKING:
    from learners.rows import RowView

SFT_ROWS: Final = View("sft_row", 1, PREFIX)
ROLLOUTS: Final = View("rollout", 1, PREFIX)
ROLLOUT_GROUPS: Final = View("rollout_group", 1, sources=(ROLLOUTS,))

NAMES: Final = (SFT_ROWS.name, ROLLOUT_GROUPS.name)
"""The views that releases are made of."""


def find(name: str, version: int | None = None) -> "RowView":
    """A view by its name, and its version (default: the newest). `UsageError`."""
    from learners.views import released

    versions = {view.version: view for view in released.RELEASED if view.name == name}
    if not versions:
        from difflib import get_close_matches

        near = get_close_matches(name, NAMES, n=1, cutoff=0.3)
        mend = f"did you mean {near[0]}?" if near else f"there are {', '.join(NAMES)}"
        raise UsageError(f"no such view: {name[:80]!r}", where="--view", mend=mend)
    chosen = max(versions) if version is None else version
    if chosen not in versions:
        has = ", ".join(str(one) for one in sorted(versions))
        raise UsageError(
            f"version {chosen} of {name} is not in this trajlog, which has {has}",
            where=f"{name}@{chosen}",
            mend="install the one that made the release",
        )
    return versions[chosen]
