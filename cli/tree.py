"""The command tree as one static table: what `trajlog --help` prints without importing a command.

A name of two words is a command in a group. The command is the function in `module` named after
its last word (`import` is `import_`: a keyword takes an underscore, a dash becomes one).
"""

import keyword
from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command lives and the first line of its help."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("cli.demo", "Try trajlog on bundled episodes, beside your own log."),
    "init": Entry("cli.init", "Create the log: start the database and bring its schema up to date."),
    "import": Entry("cli.import_", "Import recorded episodes from files, folders or stdin."),
    "export": Entry("cli.export", "Export episodes in the formats of other tools."),
    "ls": Entry("cli.ls", "List episodes."),
    "show": Entry("cli.show", "Show what happened in an episode."),
    "grep": Entry("cli.grep", "Search the text of episodes."),
    "diff": Entry("cli.diff", "Compare two episodes call by call."),
    "note": Entry("cli.note", "Add a note to an episode or to one of its events."),
    "verdict": Entry("cli.verdict", "Judge an episode, or show how it was judged."),
    "step": Entry("cli.step", "Step through an episode on the whole screen."),
    "report": Entry("cli.report", "Write one or two episodes as one HTML page to mail."),
    "verify": Entry("cli.verify", "Check that the record is whole and unaltered."),
    "retract": Entry("cli.retract", "Take back a mistaken import."),
    "append": Entry("cli.append", "Append events from JSON lines on stdin."),
    "status": Entry("cli.status", "Show where the log, its tree and its projections stand."),
    "blob get": Entry("cli.blob", "Write a blob's bytes to stdout or a file."),
    "blob gc": Entry("cli.blob", "Find the blobs that no event names, and remove them with --delete."),
    "atif lint": Entry("cli.atif", "Check ATIF trajectories against the format's rules."),
    "events": Entry("cli.events", "Print the event vocabulary."),
    "db url": Entry("cli.db", "Print the URL of the database."),
    "db psql": Entry("cli.db", "Open the database in psql."),
    "db start": Entry("cli.db", "Start the embedded database."),
    "db stop": Entry("cli.db", "Stop the embedded database."),
    "db upgrade": Entry("cli.db", "Bring the schema of the database up to date."),
    "db size": Entry("cli.db", "Show how much space the log takes."),
    "config": Entry("cli.config", "Show each setting and what it was set by."),
    "doctor": Entry("cli.doctor", "Say what is wrong with this installation, and the mend."),
    "version": Entry("cli.version", "Show the versions that matter in a bug report."),
}

GROUPS: dict[str, str] = {
    "atif": "Trajectories in the Agent Trajectory Interchange Format.",
    "blob": "The bytes that events name.",
    "db": "The database that holds the log.",
}


def children(path: str) -> dict[str, str]:
    """The names directly under the group `path` ("" is the root) with their one-line help."""
    prefix = f"{path} " if path else ""
    found: dict[str, str] = {}
    for name, entry in COMMANDS.items():
        if name.startswith(prefix):
            word, _, rest = name.removeprefix(prefix).partition(" ")
            found.setdefault(word, GROUPS[prefix + word] if rest else entry.help)
    return found


def function_name(name: str) -> str:
    """The name of the function behind a command."""
    word = name.rpartition(" ")[2].replace("-", "_")
    return f"{word}_" if keyword.iskeyword(word) else word
