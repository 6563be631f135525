"""Builds a release: into a folder beside, into the database, into its place, and then into the log.

Killed anywhere, it leaves nothing that counts, and the same command goes on. The same content under the same
name is the same version.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from core.errors import TrajlogError, UsageError
from core.vocabulary.release import Code, ReleaseBuilt
from eventlog.log import Log
from eventlog.writer import Writer
from learners.recipe import canonical as recipe_bytes
from learners.releases import arrow, base, checking, code, manifest, register, states, writing
from learners.releases.folder import beside, move
from learners.releases.manifest import Manifest
from learners.releases.naming import Named, check_name
from learners.releases.register import Spool
from learners.releases.sources import Open, Source, opened, recorded, refuse_too_old

if TYPE_CHECKING:
    from learners.recipe import Recipe
    from learners.releases.chat import Fetch
    from learners.releases.writing import Progress
    from learners.rows import RowView


class Empty(TrajlogError):
    """No row is chosen."""


class Built(NamedTuple):
    """What a build came to; `fresh` if there was no such release."""

    release: states.Release
    folder: Path
    fresh: bool


def build(
    log: Log,
    name: str,
    view: "RowView",
    recipe: "Recipe",
    sources: Sequence[Source],
    place: Path,
    fetch: "Fetch",
    *,
    progress: "Progress | None" = None,
    processes: int = 1,
) -> Built:
    """Build a release of the logs' rows into `place`/NAME@vN and record it in `log`.

    `Empty` where nothing is chosen, `TooOld` where the cut is before anything that the view reads, `HeldOut`
    and `NotForTraining` for held-out episodes; `Corrupt` where the same was built before and its folder was edited
    since; `TrajlogError` where events before the cut are parked.
    """
    check_name(name)
    if recipe.view is not None and recipe.view != view.name:
        raise UsageError(f"the recipe is for {recipe.view}", where="--view", mend=f"give --view {recipe.view}")
    since = register.last(log, name)
    text = writing.text_of(view)
    old = base.of(log, name, since, place, view=f"{view.name}@{view.version}", text=text)
    place.mkdir(parents=True, exist_ok=True)
    with beside(place) as made, tempfile.TemporaryFile() as file:
        spool = Spool(file)
        with opened(sources, view, progress=progress, processes=processes) as logs:
            guard = code.guard(logs)
            written = writing.Writing(view, recipe, made, old, fetch, spool, progress).run(logs, guard.refuse)
            if not written.total:
                for source in logs:
                    refuse_too_old(source, view)
                said = ", ".join(f"{reason} {count:,}" for reason, count in written.excluded.items())
                raise Empty(f"no row is chosen; left out: {said or 'nothing'}", where=name, mend="look at the recipe")
            cuts = [recorded(source, written.rows[source.log_id]) for source in logs]
            _ask_the_others(log, logs, spool, name)
        voids = {str(Named(name, since)): written.voids} if written.voids else {}
        built = ReleaseBuilt(
            version=0,
            release_id=written.id.hex(),
            cuts=cuts,
            view=f"{view.name}@{view.version}",
            recipe=Raw(recipe_bytes(recipe)),
            seed=recipe.seed,
            rows=written.total,
            shards=written.shards,
            files_digest=manifest.digest_of(written.files),
            code=Code(trajlog=code.version(), fold=code.digest(view), text=text),
            upcasters=dict(view.reads),
            exclusions=written.excluded,
            origins=written.origins,
            voids=voids,
            measures=Raw(msgspec.json.encode(guard.report())),
        )
        release, fresh = _record(log, name, since, built, written.id, spool)
        target = place / str(release.named)
        manifest.write(made, of(release, view, written.files))
        if fresh and target.exists():
            shutil.rmtree(target)  # of a build that was killed before it was said, maybe with another cut
        if target.exists():
            checking.refuse_edited(target, manifest.read(target), release)
        else:
            move(made, target)
    if fresh:
        log.append(Writer("release").event(release.named.stream, release.built))
        release = states.find(log, release.named)
    return Built(release, target, fresh)


def of(release: states.Release, view: "RowView", files: dict[str, manifest.File]) -> Manifest:
    """A release's manifest."""
    columns = {field.name: str(field.type) for field in writing.schema(view)}
    return Manifest(release.name, release.built, columns, arrow.CHUNK, arrow.SHARD, files)


def _record(
    log: Log, name: str, since: int, built: ReleaseBuilt, release_id: bytes, spool: Spool
) -> tuple[states.Release, bool]:
    """The release as the log has it, or will; whether it is yet to be said."""
    version = register.known(log, name, release_id)
    if version is None:
        version = since + 1
        register.enter(log, name, version, release_id, built.rows, spool)
    for release in states.releases(log, name):
        if release.version == version:
            return release, False
    return states.Release(name, msgspec.structs.replace(built, version=version), 0), True


def _ask_the_others(log: Log, logs: Sequence[Open], spool: Spool, name: str) -> None:
    """What the database of the release cannot know of other logs' episodes, theirs do."""
    for source in logs:
        if source.log_id == log.log_id:
            continue
        streams = (
            stream
            for log_id, own, _, _, digest, others in spool
            if log_id == source.log_id and digest is not None
            for stream in others or [own]
        )
        register.refuse_held_out(source.connection, streams, name)
