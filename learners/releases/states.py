"""What the log says of releases: what was built, and whether somebody approved it.

A release is a draft until it is approved or rejected. An approved one may still be rejected, which is final.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from core import vocabulary
from core.errors import NotFound, TrajlogError, UsageError
from core.vocabulary.release import ReleaseApproved, ReleaseBuilt, ReleaseRejected
from eventlog.log import Log, reader_of
from eventlog.writer import Writer
from learners.releases.naming import PREFIX, Named

State = Literal["draft", "approved", "rejected"]

MAX_TEXT: Final = 2_000
_NAMES = "SELECT stream FROM trajlog.stream WHERE stream ^@ %s ORDER BY stream"


class Decided(TrajlogError):
    """The release was decided on before."""


class Release(msgspec.Struct, frozen=True):
    """A release as the log has it. `by` and `why` are of the decision, `at` and `decided_at` µs."""

    name: str
    built: ReleaseBuilt
    at: int
    state: State = "draft"
    by: str | None = None
    why: str | None = None
    decided_at: int | None = None

    @property
    def version(self) -> int:
        return self.built.version

    @property
    def named(self) -> Named:
        return Named(self.name, self.version)


def releases(log: Log, name: str) -> list[Release]:
    """All versions of that name, in order; of two records of one version the first counts."""
    found: dict[int, Release] = {}
    for event in log.read(PREFIX + name):
        payload = vocabulary.payload(event)
        if isinstance(payload, ReleaseBuilt):
            found.setdefault(payload.version, Release(name, payload, event.committed_at))
        elif isinstance(payload, ReleaseApproved | ReleaseRejected) and payload.version in found:
            approved = isinstance(payload, ReleaseApproved)
            before = found[payload.version]
            if before.state == "draft" or (before.state == "approved" and not approved):
                found[payload.version] = msgspec.structs.replace(
                    before,
                    state="approved" if approved else "rejected",
                    by=payload.by,
                    why=payload.why,
                    decided_at=event.committed_at,
                )
    return [found[version] for version in sorted(found)]


def names(log: Log) -> list[str]:
    """Every name that has a stream."""
    with reader_of(log).borrow() as connection:
        return [stream.removeprefix(PREFIX) for (stream,) in connection.execute(_NAMES, (PREFIX,)).fetchall()]


def every(log: Log) -> Iterator[Release]:
    """All releases, by name and version."""
    for name in names(log):
        yield from releases(log, name)


def find(log: Log, named: Named) -> Release:
    """The release of that name and version, or the newest. `NotFound`."""
    found = releases(log, named.name)
    if not found:
        raise NotFound("no such release", where=repr(named.name), mend="trajlog release ls lists them")
    for release in reversed(found):
        if named.version in (None, release.version):
            return release
    there = ", ".join(f"v{release.version}" for release in found)
    raise NotFound(f"no such version; there is {there}", where=f"{named.name}@v{named.version}")


def decide(log: Log, named: Named, *, approved: bool, by: str, why: str) -> Release:
    """Approve or reject a release. `Decided` if that was done."""
    for option, text in (("--by", by), ("--why", why)):
        if not text.strip() or len(text) > MAX_TEXT:
            raise UsageError(f"must be text of at most {MAX_TEXT:,} characters", where=option)
    release = find(log, named)
    if release.state == "rejected" or (release.state == "approved" and approved):
        raise Decided(
            f"{release.by} {release.state} it: {release.why}", where=str(release.named), mend="build another release"
        )
    said = (ReleaseApproved if approved else ReleaseRejected)(
        version=release.version, release_id=release.built.release_id, by=by, why=why
    )
    log.append(Writer("release").event(named.stream, said, actor="reviewer"))
    return find(log, release.named)
