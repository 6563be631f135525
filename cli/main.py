"""`trajlog`: reads the command line, runs one command, and turns every ending into an exit code.

0 done, 1 bad input or a failed check, 2 usage, 3 incomplete, 4 environment unavailable, 130
interrupted. Whatever goes wrong is one line on stderr; `--debug` shows the traceback too.
"""

import errno
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer import _click
from typer._click.exceptions import ClickException, NoArgsIsHelpError, UsageError

from cli import modules

try:
    import trajlog
    from cli import settings
    from cli.frame import Group
    from cli.output import print_error, print_text
    from cli.terminal import clean, forgive_encoding
    from core.errors import TrajlogError
except ImportError:
    if modules.shadows():
        raise SystemExit(f"trajlog: {modules.shadows()[0]}, not from {modules.root()}; {modules.MEND}") from None
    raise

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

app = typer.Typer(
    name="trajlog",
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="\b\nExamples:\n  trajlog demo\n  trajlog import results.json\n  trajlog ls --verdict fail",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print_text(f"trajlog {trajlog.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Event-sourced trajectory store and replay system for mobile planner agents."""


def main() -> None:
    """The console script."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if sys.stdout is None:
        sys.stderr.write("trajlog: stdout is closed; give what is printed somewhere to go\n")
        sys.exit(1)
    forgive_encoding()
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing is raised."""
    settings.forget()
    try:
        try:
            return _invoke(typer.main.get_command(app), list(arguments))
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        if _reader_is_gone():
            return _end_like_a_pipe()
        return _fail(error)
    except (Exception, KeyboardInterrupt) as error:
        return _fail(error)


def _invoke(command: _click.Command, arguments: list[str]) -> int:
    try:
        instruction = os.environ.get("_TRAJLOG_COMPLETE")
        if instruction:
            from typer.completion import shell_complete

            return shell_complete(command, {}, "trajlog", "_TRAJLOG_COMPLETE", instruction)
        with command.make_context("trajlog", arguments) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    return 0


def _fail(error: BaseException) -> int:
    """One line on stderr for what went wrong, and the exit code."""
    if settings.debug():
        import traceback

        sys.stderr.write(clean("".join(traceback.format_exception(error)), lines=True))
    line, code = _explain(error)
    print_error(line)
    return code


def _explain(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, TrajlogError):
        return str(error), error.exit_code
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(error, psycopg.Error):
        from eventlog.database import translate

        unavailable = translate(error, "database")
        return str(unavailable), unavailable.exit_code
    if isinstance(error, NoArgsIsHelpError):
        sys.stderr.write(f"{error.format_message()}\n")
        return "no command given", 2
    if isinstance(error, UsageError):
        path = error.ctx.command_path if error.ctx else "trajlog"
        return f"{_sentence(error)}; see '{path} --help'", 2
    if isinstance(error, ClickException):
        return error.format_message(), error.exit_code
    if isinstance(error, typer.Abort | EOFError):
        return "aborted", 1
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}", 4 if error.errno in _NO_SPACE else 1
    bug = f"this is a bug in trajlog ({type(error).__name__}: {error})"
    return f"{bug}; run it again with --debug and report what it prints", 1


def _sentence(error: ClickException) -> str:
    text = error.format_message().rstrip(".")
    return text[:1].lower() + text[1:]


def _reader_is_gone() -> bool:
    """Whether stdout is a pipe that nobody reads any more."""
    import select

    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    except (OSError, ValueError):
        return False


def _end_like_a_pipe() -> int:
    """End as other tools do when `| head` has read enough: silently, by SIGPIPE."""
    import signal

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    return 128 + signal.SIGPIPE
