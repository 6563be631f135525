"""`trajlog demo`: the main job on bundled episodes, in a log of its own."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import settings
from cli.frame import command
from cli.output import clean, note, print_text, style
from core.errors import UsageError

EPISODES = Path(__file__).parent / "episodes" / "planner.json"


@command("trajlog demo", "trajlog demo --keep trajlog-demo")
def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the log in this new folder instead of throwing it away.")
    ] = None,
) -> None:
    """Try trajlog on bundled episodes, beside your own log.

    A planner on a phone was given three tasks twice, and did each once right and once wrong. The demo
    imports that into a log of its own, lists the failures, shows the last one and verifies the log.
    """
    for setting in settings.explain():
        if setting.source == "flag":
            raise UsageError(f"the demo has a log of its own: leave out --{setting.name}", mend="see --keep")
    with _home(keep) as home, _alone(home):
        _play(keep)


def _play(keep: Path | None) -> None:
    from cli.import_ import import_
    from cli.ls import ls
    from cli.show import show
    from cli.verify import verify

    note("starting a database of its own …")
    _show("import", str(EPISODES), lambda: import_([str(EPISODES)]))
    _show("ls", "--verdict fail", lambda: ls(verdict="fail"))
    _show("show", "@last-failed", lambda: show("@last-failed"))
    _show("verify", "", verify)
    where = "" if keep is None else f" --home {_quoted(keep)}"
    print_text("To go on:")
    if keep is None:
        print_text("  trajlog demo --keep trajlog-demo   the same, and the log stays")
    else:
        print_text(f"  trajlog ls{where}")
        print_text(f"  trajlog show @last{where}")
        print_text(f"  trajlog db stop{where}")
    print_text("  trajlog import FILE…               your own recordings, into your own log")
    print_text("  trajlog --help")


def _show(name: str, arguments: str, call: Callable[[], Any]) -> None:
    print_text(style(f"$ trajlog {name} {clean(arguments)}".rstrip(), "bold"))
    call()
    print_text()


@contextmanager
def _home(keep: Path | None) -> Iterator[Path]:
    """The demo's data folder: removed in the end unless it is to be kept, its server stopped anyway."""
    import shutil
    import tempfile

    from eventlog.embedded import Embedded

    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError("is there already", where=str(keep), mend="name a folder that does not exist")
    folder = Path(tempfile.mkdtemp(prefix="trajlog-demo-"))
    folder.chmod(0o711)  # as root, the user that runs PostgreSQL must get through
    home = folder / "home" if keep is None else keep.absolute()
    try:
        yield home
    finally:
        Embedded(home).stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Nothing of the user's own settings reaches the demo, and SIGTERM ends it as Ctrl-C does: in order."""
    before = dict(os.environ)
    for name in settings.NAMES:
        os.environ.pop(f"TRAJLOG_{name.upper()}", None)
    os.environ["TRAJLOG_CONFIG"] = os.devnull
    settings.flag("home", str(home))
    with suppress(ValueError):  # a thread that is not the main one gets no signals
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
