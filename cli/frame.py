"""The frame around every command: lazy loading, plain help, and the options accepted everywhere.

A command module decorates a function with `@command("trajlog ls --verdict fail")`: the strings are
the examples at the end of its help. Groups know their commands by the table in `cli.tree` alone
and import a module only when one of its commands is called, completed or asked for help.
"""

from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, TypeVar

import typer
from typer import _click
from typer._click.exceptions import UsageError
from typer._click.shell_completion import CompletionItem
from typer.core import TyperCommand, TyperGroup, TyperOption

from cli import tree
from cli.settings import flag

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
"""The `--json` of commands that print data: declare `json: Json = False`."""

Function = TypeVar("Function", bound=Callable[..., Any])


def command(*examples: str) -> Callable[[Function], Function]:
    """Make a function a command; `examples` are whole command lines and close its help."""

    def mark(function: Function) -> Function:
        function.__dict__["examples"] = examples
        return function

    return mark


def _remember(context: _click.Context, option: _click.Parameter, value: Any) -> Any:
    if value not in (None, False) and not context.resilient_parsing and option.name:
        flag(option.name, value)
    return value


def _common() -> list[_click.Parameter]:
    def text(name: str, metavar: str, help: str) -> _click.Parameter:
        return TyperOption(
            param_decls=[f"--{name}"], callback=_remember, expose_value=False, metavar=metavar, help=help, type=str
        )

    def switch(name: str, help: str) -> _click.Parameter:
        return TyperOption(
            param_decls=[f"--{name}"], callback=_remember, expose_value=False, is_flag=True, default=False, help=help
        )

    return [
        text("db", "URL", "PostgreSQL database of the log, instead of the embedded one."),
        text("log", "URL", "Where events are sent, instead of straight to the database."),
        text("home", "PATH", "Folder of the embedded database and the blobs."),
        switch("quiet", "No progress and no notes on stderr."),
        switch("debug", "Show the traceback of an error."),
    ]


COMMON = _common()
"""Accepted before and after every command; `cli.settings` keeps what was given."""


class Leaf(TyperCommand):
    """A command: its own options first in its help, the common ones after them."""

    def get_params(self, ctx: _click.Context) -> list[_click.Parameter]:
        return [*super().get_params(ctx), *COMMON]

    def parse_args(self, ctx: _click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_options(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)


class Group(TyperGroup):
    """A group that knows its commands by the static table and imports them when needed."""

    path = ""

    def get_params(self, ctx: _click.Context) -> list[_click.Parameter]:
        return [*super().get_params(ctx), *COMMON]

    def list_commands(self, ctx: _click.Context) -> list[str]:
        return list(tree.children(self.path))

    def get_command(self, ctx: _click.Context, cmd_name: str) -> _click.Command | None:
        return load(f"{self.path} {cmd_name}".strip())

    def format_options(self, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(tree.children(self.path).items()))
        _write_options(self, ctx, formatter)

    def resolve_command(
        self, ctx: _click.Context, args: list[str]
    ) -> tuple[str | None, _click.Command | None, list[str]]:
        known = tree.children(self.path)
        if args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            near = get_close_matches(args[0], known)
            ctx.fail(f"no such command {args[0]!r}" + (f", did you mean {' or '.join(near)}?" if near else ""))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: _click.Context, incomplete: str) -> list[CompletionItem]:
        names = [
            CompletionItem(name, help=help)
            for name, help in tree.children(self.path).items()
            if name.startswith(incomplete)
        ]
        return names + TyperCommand.shell_complete(self, ctx, incomplete)


def load(name: str) -> _click.Command | None:
    """The command or group of that full name, or None."""
    if name in tree.GROUPS:
        group = Group(name=name, help=tree.GROUPS[name], no_args_is_help=True, rich_markup_mode=None)
        group.path = name
        return group
    if name not in tree.COMMANDS:
        return None
    function = getattr(import_module(tree.COMMANDS[name].module), tree.function_name(name))
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name.rpartition(" ")[2], cls=Leaf, epilog=_epilog(function.examples))(function)
    return typer.main.get_command(app)


def _epilog(examples: tuple[str, ...]) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)


def _write_options(self: _click.Command, ctx: _click.Context, formatter: _click.HelpFormatter) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Common options": []}
    for param in self.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None:
            argument = param.param_type_name == "argument"
            sections["Common options" if param in COMMON else "Arguments" if argument else "Options"].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
