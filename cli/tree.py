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
    "demo": Entry("cli.demo", "Try trajlog on a small phone, beside your own log."),
    "init": Entry("cli.init", "Create the log: start the database and bring its schema up to date."),
    "import": Entry("cli.import_", "Import recorded episodes from files, folders or stdin."),
    "export": Entry("cli.export", "Export episodes in the formats of other tools."),
    "ls": Entry("cli.ls", "List episodes."),
    "show": Entry("cli.show", "Show what happened in an episode."),
    "grep": Entry("cli.grep", "Search the text of episodes."),
    "diff": Entry("cli.diff", "Compare two episodes call by call."),
    "tasks": Entry("cli.tasks", "List tasks with their pass rates."),
    "tools": Entry("cli.tools", "List tools with their calls, errors and latency."),
    "policies": Entry("cli.policies", "List policies with their pass rates."),
    "groups": Entry("cli.groups", "List groups of rollouts with how many passed."),
    "note": Entry("cli.note", "Add a note to an episode or to one of its events."),
    "verdict": Entry("cli.verdict", "Judge an episode, or show how it was judged."),
    "mark": Entry("cli.mark", "Mark the turns that are erroneous by rule."),
    "step": Entry("cli.step", "Step through an episode on the whole screen."),
    "report": Entry("cli.report", "Write one or two episodes as one HTML page to mail."),
    "verify": Entry("cli.verify", "Check that the record is whole and unaltered."),
    "tag create": Entry("cli.tag", "Name the log as it is, or was, for ever."),
    "tag ls": Entry("cli.tag", "List tags."),
    "tag show": Entry("cli.tag", "Show what a tag says, and who signed it."),
    "tag verify": Entry("cli.tag", "Check that the log still is what tags name."),
    "tag diff": Entry("cli.tag", "Show what came into the log between two tags."),
    "tag receipt": Entry("cli.tag", "Write a tag's receipt, to be kept elsewhere."),
    "release build": Entry("cli.release", "Freeze rows of a view as NAME@vN, shards and manifest."),
    "release ls": Entry("cli.release", "List releases."),
    "release show": Entry("cli.release", "Show what a release holds, and who decided on it."),
    "release approve": Entry("cli.release", "Approve a release: it may be exported for training."),
    "release reject": Entry("cli.release", "Reject a release: it is not exported any more."),
    "release diff": Entry("cli.release_check", "Show which rows were added, removed or changed, and why."),
    "release rebuild": Entry("cli.release_check", "Build a release again and compare the id and the bytes."),
    "release verify": Entry("cli.release_check", "Check that the files of a release are those that were built."),
    "release export": Entry("cli.release_export", "Export a release in the formats that trainers read."),
    "release recipe": Entry("cli.release", "Print what a recipe may say, or check one."),
    "lineage": Entry("cli.lineage", "Trace a row to its events, or an event to the releases that hold it."),
    "proof make": Entry("cli.proof", "Write a proof that events are in the log."),
    "proof check": Entry("cli.proof", "Check a proof, with no log and no network."),
    "key show": Entry("cli.key", "Print the public key of this instance."),
    "key rotate": Entry("cli.key", "Replace the key that signs."),
    "retract": Entry("cli.retract", "Take back a mistaken import."),
    "run": Entry("cli.run", "Run a planner on a task, and record everything."),
    "task add": Entry("cli.task", "Add tasks through the gate, from files or an environment."),
    "task ls": Entry("cli.task", "List the tasks of the log."),
    "task show": Entry("cli.task", "Show a task: its specification, its plans and what the gate said."),
    "task gate": Entry("cli.task", "Try tasks at the admission gate again."),
    "exec": Entry("cli.exec", "Run recorded actions again, and compare everything that comes back."),
    "env add": Entry("cli.env", "Mount an environment that somebody else wrote."),
    "env ls": Entry("cli.env", "List the environments that can be used here."),
    "env tools": Entry("cli.env", "List the tools of an environment, as a planner is shown them."),
    "env check": Entry("cli.env", "Try an environment, everything twice, and compare."),
    "env schema": Entry("cli.env", "Print the JSON schema of a mount file."),
    "append": Entry("cli.append", "Append events from JSON lines on stdin."),
    "persist": Entry("cli.persist", "Write what Kafka accepted into the ledger, exactly once."),
    "quarantine ls": Entry("cli.quarantine", "List quarantined records, the latest first."),
    "quarantine show": Entry("cli.quarantine", "Show a quarantined record, its bytes included."),
    "quarantine retry": Entry("cli.quarantine", "Send quarantined records through the door again."),
    "quarantine drop": Entry("cli.quarantine", "Give quarantined records up."),
    "kafka accept": Entry("cli.accept", "Show what Kafka lost, and with --yes go on without it."),
    "status": Entry("cli.status", "Show where the log, its tree and its projections stand."),
    "project ls": Entry("cli.project", "List the projections and where they stand."),
    "project run": Entry("cli.project", "Bring projections up to date, and let reactors react."),
    "project rebuild": Entry("cli.project", "Fold the whole log into new tables, then put them in place."),
    "project verify": Entry("cli.project_check", "Check that tables hold what their folds give."),
    "project shadow": Entry("cli.project_check", "Show which rows a new version of a fold would change."),
    "project parked": Entry("cli.project", "List streams that stopped at an event."),
    "project retry": Entry("cli.project", "Try parked streams again."),
    "kafka init": Entry("cli.kafka", "Create the topic of the log, with the settings that it needs."),
    "kafka check": Entry(
        "cli.kafka",
        "Say what is wrong with the settings of topic and broker.",
    ),
    "blob get": Entry("cli.blob", "Write a blob's bytes to stdout or a file."),
    "blob gc": Entry("cli.blob", "Find the blobs that no event names, and remove them with --delete."),
    "atif lint": Entry("cli.atif", "Check ATIF trajectories against the format's rules."),
    "events": Entry("cli.events", "Print the event vocabulary."),
    "db url": Entry("cli.db", "Print the URL of the database."),
    "db psql": Entry("cli.db", "Open the database in psql."),
    "db start": Entry("cli.db", "Start the embedded database."),
    "db stop": Entry("cli.db", "Stop the embedded database."),
    "db upgrade": Entry("cli.db", "Bring the schema of the database up to date."),
    "db restored": Entry("cli.db", "Tell a database that was restored from a backup that it is one."),
    "db size": Entry("cli.db", "Show how much space the log takes."),
    "config": Entry("cli.config", "Show each setting and what it was set by."),
    "doctor": Entry("cli.doctor", "Say what is wrong with this installation, and the mend."),
    "version": Entry("cli.version", "Show the versions that matter in a bug report."),
}

GROUPS: dict[str, str] = {
    "env": "Environments that actions run in: those of trajlog, and mounted ones.",
    "task": "What is to be achieved, and the gate that admits it.",
    "atif": "Trajectories in the Agent Trajectory Interchange Format.",
    "blob": "The bytes that events name.",
    "db": "The database that holds the log.",
    "project": "What is derived from the log, kept up to date and rebuilt.",
    "kafka": "The topic that feeds the log.",
    "key": "The key that signs tags and proofs.",
    "proof": "Events that an auditor can check without the log.",
    "quarantine": "Records that could not be accepted.",
    "release": "Frozen training sets, named by what they hold.",
    "tag": "Names for what the log was, signed.",
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
