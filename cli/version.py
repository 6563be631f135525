"""`trajlog version`."""

import platform

import trajlog
from cli.frame import Json, command
from cli.output import print_json, print_text


@command("trajlog version", "trajlog version --json")
def version(json: Json = False) -> None:
    """Show the versions that matter in a bug report."""
    found = {"trajlog": trajlog.__version__, "python": platform.python_version(), "platform": platform.platform()}
    if json:
        print_json(found)
        return
    for name, text in found.items():
        print_text(f"{name:<10}{text}")
