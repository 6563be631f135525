"""Every projection and reactor there is: ours, and those of installed plug-ins.

A plug-in is code written for trajlog: an installed distribution names its projections under the entry
points `trajlog.projections`, its reactors under `trajlog.reactors`. Only the commands that run projections
load them; what records and what reads episodes never does.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from core.errors import NotFound, TrajlogError, UsageError
from eventlog.projection import AnyProjection, Projection, Source, is_first
from eventlog.projection.beside import Beside
from eventlog.projection.reactor import Reactor
from eventlog.projection.tables import NEW
from eventlog.views import VIEWS, registered

PROJECTIONS: Final = "trajlog.projections"
REACTORS: Final = "trajlog.reactors"

RESERVED: Final = frozenset({*(view.name for view in VIEWS), "grep", "event", "stream"})

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PREFIX = re.compile(r"[A-Za-z0-9_./-]*")
_TYPES = frozenset({"text", "bigint", "int", "double precision", "boolean", "timestamptz", "bytea", "uuid"})


class BadPlugin(TrajlogError):
    """A plug-in that cannot be loaded, or is none."""


def projections(faults: list[BadPlugin] | None = None, more: Sequence[AnyProjection] = ()) -> list[AnyProjection]:
    """Ours, `more` of rooms above this one, and those of plug-ins, sources first. A plug-in that cannot be
    used raises `BadPlugin`, or is added to `faults`."""
    ours = [*registered(), *more]
    own = {projection.name for projection in ours}
    others: dict[str, AnyProjection] = {}
    for point in _points(PROJECTIONS):
        try:
            found = _load(point)
            for projection in found if isinstance(found, list | tuple) else [found]:
                _check(projection, point)
                if projection.name in own:
                    raise _bad(point, f"the name {projection.name!r} is trajlog's own")
                if others.setdefault(projection.name, projection) is not projection:
                    raise _bad(point, f"the name {projection.name!r} is taken by another plug-in")
        except BadPlugin as fault:
            if faults is None:
                raise
            faults.append(fault)
    return [*ours, *sorted(others.values(), key=lambda projection: (not is_first(projection), projection.name))]


def reactors(faults: list[BadPlugin] | None = None) -> list[Reactor]:
    """The reactors of plug-ins."""
    found: dict[str, Reactor] = {}
    for point in _points(REACTORS):
        try:
            reactor = _load(point)
            _check_name(reactor, point)
            if not callable(getattr(reactor, "react", None)) or not isinstance(getattr(reactor, "prefix", None), str):
                raise _bad(point, "is no reactor: it needs name, prefix and react(event)")
            if found.setdefault(reactor.name, reactor) is not reactor:
                raise _bad(point, f"the name {reactor.name!r} is taken by another plug-in")
        except BadPlugin as fault:
            if faults is None:
                raise
            faults.append(fault)
    return sorted(found.values(), key=lambda reactor: reactor.name)


def named(name: str, version: int, module: str) -> Projection:
    """The fold of that name and version, whose class is in that module; one that ends in `/new` is the same
    fold, built beside. Rooms above this one are known by the module alone."""
    bare = name.removesuffix(NEW)
    known = registered() if bare in {view.name for view in VIEWS} else [*_instances(module), *projections()]
    for projection in known:
        if (projection.name, projection.version) == (bare, version) and is_first(projection):
            return projection if bare == name else Beside.of(projection)
    raise unknown(name)


def _instances(module: str) -> Iterator[AnyProjection]:
    for found in vars(import_module(module)).values():
        if (
            not isinstance(found, type)
            and isinstance(getattr(found, "version", None), int)
            and hasattr(found, "columns")
        ):
            yield found


def unknown(name: str) -> NotFound:
    return NotFound("no such projection", where=repr(name[:80]), mend="trajlog project ls lists them")


def _points(group: str) -> Iterator[EntryPoint]:
    yield from sorted(entry_points(group=group), key=lambda point: point.name)


def _load(point: EntryPoint) -> Any:
    try:
        with redirect_stdout(sys.stderr):  # what is printed is ours to say
            found = point.load()
            return found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        raise _bad(point, f"cannot be loaded: {type(error).__name__}: {error}") from error


def _check_name(found: Any, point: EntryPoint) -> None:
    name = getattr(found, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _bad(point, "needs a name of at most 32 small letters, digits and _")
    if name in RESERVED:
        raise _bad(point, f"the name {name!r} is trajlog's own")


def _check(found: Any, point: EntryPoint) -> None:
    """Raise unless it is a projection whose tables can be made."""
    _check_name(found, point)
    version = getattr(found, "version", None)
    if not isinstance(version, int) or version < 1:
        raise _bad(point, "needs a version, an int from 1")
    needed = ("columns", "key", "indexes", "rows", *(("query",) if hasattr(found, "reads") else _FOLD))
    missing = [name for name in needed if not hasattr(found, name)]
    if missing:
        raise _bad(point, f"is no projection: it has no {', '.join(missing)}")
    columns = {column.name: column.type for column in found.columns}
    wrong = [name for name in (*columns, *found.key) if not _NAME.fullmatch(name) or name not in columns]
    wrong += [f"{name} {type_}" for name, type_ in columns.items() if type_.removesuffix("[]") not in _TYPES]
    if wrong or not found.key:
        raise _bad(point, f"its columns or key cannot be: {', '.join(wrong) or 'it has no key'}")
    if hasattr(found, "reads"):
        _check_sources(found.reads, point)
    elif not _PREFIX.fullmatch(found.prefix):
        raise _bad(point, f"its prefix cannot be: {found.prefix!r}")


_FOLD = ("prefix", "initial", "apply", "dump", "load")


def _check_sources(reads: Sequence[Source], point: EntryPoint) -> None:
    for source in reads:
        if source.view.sources or not _PREFIX.fullmatch(source.view.prefix):
            raise _bad(point, f"cannot be made from {source.view.name}: a source is a fold of streams")


def _bad(point: EntryPoint, what: str) -> BadPlugin:
    owner = f" of {point.dist.name}" if point.dist is not None else ""
    return BadPlugin(what, where=f"plug-in {point.name}{owner} ({point.value})", mend="mend or uninstall it")


def choose(known: Sequence[AnyProjection], names: Sequence[str]) -> list[AnyProjection]:
    """Those of that name, sources first; all if none is named. `NotFound`."""
    if not names:
        return list(known)
    by_name = {projection.name: projection for projection in known}
    for name in names:
        if name not in by_name:
            raise unknown(name)
    chosen: dict[str, AnyProjection] = {}
    for name in names:
        projection = by_name[name]
        if not is_first(projection):
            for source in getattr(projection, "reads", ()):
                if source.view.name not in by_name or by_name[source.view.name].version != source.view.version:
                    raise UsageError(
                        f"it is made from {source.view.name} v{source.view.version}, which is not here",
                        where=f"projection {name}",
                        mend="install what has it",
                    )
                chosen[source.view.name] = by_name[source.view.name]
        chosen[name] = projection
    return [projection for projection in known if projection.name in chosen]
