"""What the commands of `trajlog release` share: where releases lie, the logs they draw on, their blobs."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.settings import settings
from core.errors import NotFound, UsageError

if TYPE_CHECKING:
    from eventlog.interchange.whole import Fetch
    from eventlog.log import Log
    from learners.releases.states import Release

Name = Annotated[str, typer.Argument(metavar="NAME[@vN]", help="A release; by default the newest of that name.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where releases lie, each in a folder of its own; by default HOME/releases."),
]
Cuts = Annotated[
    list[str] | None,
    typer.Option("--cut", metavar="DB", help="The database of another log that it draws on (repeatable)."),
]


def need_arrow() -> None:
    """`UsageError` where pyarrow, which rows are written with, is not installed."""
    from learners.views.reading import arrow

    arrow()


def place(out: Path | None) -> Path:
    """The folder that releases lie in."""
    return settings().home / "releases" if out is None else out


def fetch() -> "Fetch":
    """Reads blobs; None for one that is not there."""
    from eventlog.blobs import BlobStore

    chosen = settings()
    store = BlobStore(chosen.blobs or chosen.home / "blobs")

    def get(address: str) -> bytes | None:
        try:
            return store.get(address)
        except NotFound:
            return None

    return get


def open_other(url: str) -> "Log":
    """The log of another database. `UsageError` for what is none."""
    import eventlog

    if not url:
        raise UsageError("no database", where="--cut", mend="write --cut postgresql://user@host/name=TAG")
    chosen = settings()
    return eventlog.open(url, None, home=chosen.home, blobs=chosen.blobs)


@contextmanager
def logs(others: Sequence[str]) -> "Iterator[list[Log]]":
    """The log of this invocation, and those of other databases."""
    with ExitStack() as stack:
        found = [stack.enter_context(settings().open())]
        found += [stack.enter_context(open_other(url)) for url in others]
        yield found


def find(log: "Log", name: str) -> "Release":
    """The release of that name."""
    from learners.releases import naming, states

    named = naming.parse(name)
    if named.row is not None:
        raise UsageError("names a row", where=name, mend="leave out the # and what follows")
    return states.find(log, named)
