"""`trajlog demo`: the main job on a small phone, in a log of its own."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from cli import settings
from cli.frame import command, load
from cli.output import clean, note, print_text, style
from core.errors import UsageError

EPISODES = Path(__file__).parent / "episodes"


@command("trajlog demo", "trajlog demo --keep trajlog-demo")
def demo(
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the log in this new folder instead of throwing it away.")
    ] = None,
) -> None:
    """Try trajlog on a small phone, beside your own log.

    A scripted planner is given two tasks on a phone in memory, each once as it is and once with a fault
    injected, all recorded in a log of its own. The demo shows the last failure, compares it with what
    passed, carries the recorded actions out again, and once more on a phone with a tool renamed.
    """
    for setting in settings.explain():
        if setting.source == "flag":
            raise UsageError(f"the demo has a log of its own: leave out --{setting.name}", mend="see --keep")
    with _home(keep) as home, alone(home):
        note("starting a database of its own …")
        play()
        _go_on(keep)


def play() -> None:
    """The demo's commands, on the log that the settings name."""
    flight, meeting = (f"script:{_file(name)}" for name in ("flight.json", "meeting.json"))
    _show("task add", "--env", "phone")
    _show("run", "--task", "phone/quiet-meeting", "--planner", meeting)
    _show("run", "--task", "phone/quiet-meeting", "--planner", meeting, "--faults", _file("lie.json"))
    _show("run", "--task", "phone/early-flight", "--planner", flight)
    _show("run", "--task", "phone/early-flight", "--planner", flight, "--faults", _file("busy.json"))
    _show("ls", "--verdict", "fail")
    _show("show", "@last-failed")
    _show("diff", "@last-failed")
    _show("exec", "@last-failed")
    _show("exec", "--all", "--env", "phone-next")
    _show("verify")
    _show("ls")


def _go_on(keep: Path | None) -> None:
    where = "" if keep is None else f" --home {_quoted(keep)}"
    print_text("To go on:")
    if keep is None:
        print_text("  trajlog demo --keep trajlog-demo   the same, and the log stays")
    else:
        print_text(f"  trajlog ls{where}")
        print_text(f"  trajlog show @last{where}")
        print_text(f"  trajlog db stop{where}")
    print_text("  trajlog import FILE…               your own recordings, into your own log")
    print_text("  trajlog run --help                 your own planner, on the phone or on your own tools")
    print_text("  trajlog --help")


def _show(name: str, *arguments: str) -> None:
    """Print a command line and run it; what it exits with is part of the demo."""
    print_text(style(f"$ trajlog {name} {clean(' '.join(arguments))}".rstrip(), "bold"))
    command = load(name)
    assert command is not None
    with suppress(typer.Exit), command.make_context(f"trajlog {name}", list(arguments)) as context:
        command.invoke(context)
    print_text()


def _file(name: str) -> str:
    """A bundled file, by the shorter of its two paths."""
    path = EPISODES / name
    return min(str(path), os.path.relpath(path), key=len)


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
def alone(home: Path) -> Iterator[None]:
    """Nothing of the user's own settings reaches the demo, and SIGTERM ends it as Ctrl-C does: in order."""
    before = dict(os.environ)
    ours = {f"TRAJLOG_{name.upper()}" for name in settings.NAMES}
    for name in before:
        if name in ours or name.startswith("TRAJLOG_KAFKA_"):
            del os.environ[name]
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
