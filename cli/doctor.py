"""`trajlog doctor`."""

import typer

from cli.frame import Json, command
from cli.output import clean, print_json, print_text, style

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@command("trajlog doctor", "trajlog doctor --json")
def doctor(json: Json = False) -> None:
    """Say what is wrong with this installation, and the mend.

    Exit 1 if any check fails. A warning is about something that works, but not as well as it could.
    """
    from cli.checks import run

    found = list(run())
    failed = any(check.status == "fail" for check in found)
    if json:
        print_json({"ok": not failed, "checks": [check._asdict() for check in found]})
    else:
        for check in found:
            print_text(f"{style(f'{check.status:<4}', COLOURS[check.status])}  {check.name:<9}  {clean(check.detail)}")
            if check.mend:
                print_text(f"{'':<17}{clean(check.mend)}")
    if failed:
        raise typer.Exit(1)
