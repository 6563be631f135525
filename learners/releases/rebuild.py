"""Builds a release again, from what the log says of it alone, and compares: the same id, the same bytes.

What cannot be the same says why: something was `erased`, this `code` is not the one, or it `differs`, which is
a fault.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from core.errors import UsageError
from core.identity import uuid_bytes, uuid_text
from eventlog.log import Log
from learners import recipe, views
from learners.releases import build, chat, checking, code, manifest, writing
from learners.releases.base import Nothing
from learners.releases.folder import beside, move
from learners.releases.register import Spool
from learners.releases.sources import Source, again, opened
from learners.releases.states import Release

if TYPE_CHECKING:
    from learners.releases.chat import Fetch
    from learners.releases.writing import Progress, Written
    from learners.rows import RowView

Reason = Literal["erased", "code", "differs"]


class Rebuilt(NamedTuple):
    """What came of it. `id` is that of what was made, None if nothing was; `detail` says more of the reason."""

    id: str | None
    identical: bool
    reason: Reason | None = None
    detail: str | None = None
    folder: Path | None = None


def sources(release: Release, logs: Sequence[Log]) -> list[Source]:
    """The logs as of the release's cuts. `UsageError` where one is not given."""
    given: Mapping[bytes, Log] = {log.log_id: log for log in logs}
    found = []
    for cut in release.built.cuts:
        log_id = uuid_bytes(cut.log_id)
        if log_id not in given:
            raise UsageError(
                f"it draws on the log {uuid_text(log_id)} too", where=str(release.named), mend="give --cut DB for it"
            )
        found.append(again(given[log_id], cut))
    return found


def view_of(release: Release) -> "RowView | str":
    """The view that a release is made of, or why this code cannot make it."""
    name, _, version = release.built.view.partition("@")
    try:
        view = views.find(name, int(version))
    except UsageError as error:
        return f"{error.what}; {release.named} was built with trajlog {release.built.code.trajlog}"
    text = writing.text_of(view)
    if text != release.built.code.text:
        return (
            f"this trajlog writes messages as {text}, not {release.built.code.text}; "
            f"{release.named} was built with trajlog {release.built.code.trajlog}"
        )
    return view


def rebuild(
    release: Release,
    logs: Sequence[Log],
    place: Path,
    fetch: "Fetch",
    *,
    force: bool = False,
    progress: "Progress | None" = None,
    processes: int = 1,
) -> Rebuilt:
    """Build the release again. Its folder in `place` is put there where it is missing, or, with `force`, where its
    files are not as they were; without `force` those are `Corrupt`."""
    view = view_of(release)
    if isinstance(view, str):
        return Rebuilt(None, False, "code", view)
    chosen = recipe.load(bytes(release.built.recipe))
    place.mkdir(parents=True, exist_ok=True)
    with beside(place) as made, tempfile.TemporaryFile() as file:
        with opened(sources(release, logs), view, progress=progress, processes=processes) as found:
            refuse = code.guard(found).refuse
            written = writing.Writing(view, chosen, made, Nothing(), fetch, Spool(file), progress).run(found, refuse)
        made_id = written.id.hex()
        if made_id != release.built.release_id or manifest.digest_of(written.files) != release.built.files_digest:
            return Rebuilt(made_id, False, *_reason(release, view, written))
        target = place / str(release.named)
        said = build.of(release, view, written.files)
        if target.exists():
            if not (force and checking.fault(target, said, release)):
                checking.refuse_edited(target, said, release)
                return Rebuilt(made_id, True, folder=target)
            shutil.rmtree(target)
        manifest.write(made, said)
        move(made, target)
        return Rebuilt(made_id, True, folder=target)


def _reason(release: Release, view: "RowView", written: "Written") -> tuple[Reason, str]:
    built = release.built
    missing = written.excluded.get(chat.MISSING, 0) - built.exclusions.get(chat.MISSING, 0)
    if missing > 0:
        return "erased", f"{missing:,} of its rows rest on what was erased since"
    if built.code.fold != code.digest(view):
        return (
            "code",
            f"the source of {built.view} is another one than in the trajlog {built.code.trajlog} that built it",
        )
    return "differs", "the same fold gives other rows: a fault, or an altered log (trajlog verify)"
