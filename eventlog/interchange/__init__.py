"""Interchange: other tools' recordings come in as episodes.

A format is one module with one `Importer`; `FORMATS` names ours, and the entry-point group
`trajlog.importers` adds those of other packages. An importer says how well it recognises a file
(`sniff`), cuts the file into records, and turns one record into drafts of episodes; `importer.run`
gives them ids and appends them.
"""

from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from typing import Any, ClassVar

from core.errors import UsageError
from eventlog.interchange.draft import Context, EpisodeDraft, EventDraft
from eventlog.interchange.records import Record, Rejected, records
from eventlog.interchange.sources import Source
from eventlog.interchange.split import Reader

__all__ = [
    "Confidence",
    "Context",
    "EpisodeDraft",
    "EventDraft",
    "Importer",
    "Reader",
    "Record",
    "Rejected",
    "Source",
    "find",
    "importers",
    "names",
]

GROUP = "trajlog.importers"

FORMATS: dict[str, str] = {
    "android-control": "eventlog.interchange.android_control.importer:AndroidControl",
    "atif": "eventlog.interchange.atif.importer:Atif",
    "mini-swe-agent": "eventlog.interchange.swe.mini:MiniSweAgent",
    "swe-agent": "eventlog.interchange.swe.agent:SweAgent",
    "inspect": "eventlog.interchange.inspect.importer:Inspect",
    "langfuse": "eventlog.interchange.langfuse.importer:Langfuse",
    "otlp": "eventlog.interchange.otlp.importer:Otlp",
    "openai": "eventlog.interchange.openai.importer:OpenAIChat",
    "tau-bench": "eventlog.interchange.tau_bench:TauBench",
}


class Confidence(IntEnum):
    """How well a file fits a format."""

    NO = 0  # it is something else
    POSSIBLE = 1  # nothing speaks against it
    LIKELY = 2  # it has what the format requires
    CERTAIN = 3  # it says so itself, or has what no other format has


class Importer:
    """One format. `mapping` is the version of what is made of a record: raise it when that changes."""

    name: ClassVar[str]
    mapping: ClassVar[int]
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")

    def sniff(self, head: bytes, first: dict[str, Any] | None) -> Confidence:
        """How well the file fits, by its first bytes and its first record (None if it is no JSON)."""
        raise NotImplementedError

    def records(self, source: Source, reader: Reader) -> Iterator[Record | Rejected]:
        """The file's records; the default reads a JSON array, JSON lines or a JSON document."""
        return records(source, reader)

    def episodes(self, record: Record, context: Context) -> Iterator[EpisodeDraft]:
        """The episodes in a record. `BadRecord` rejects it as a whole."""
        raise NotImplementedError


def names() -> list[str]:
    """Every format that can be imported."""
    return sorted({*FORMATS, *_foreign()})


def importers() -> list[Importer]:
    """An importer for each format."""
    return [find(name) for name in names()]


def find(name: str) -> Importer:
    """The importer for a format; UsageError if there is none."""
    if name in FORMATS:
        module, _, member = FORMATS[name].partition(":")
        made = getattr(import_module(module), member)()
    else:
        point = _foreign().get(name)
        if point is None:
            raise UsageError(f"no format {name!r}", where="--format", mend=f"known ones are {', '.join(names())}")
        try:
            made = point.load()()
        except Exception as error:
            raise UsageError(
                f"the importer of another package does not load: {error!r}",
                where=f"{GROUP}: {point.value}",
                mend="mend or remove that package",
            ) from error
    assert isinstance(made, Importer)
    return made


def _foreign() -> dict[str, Any]:
    from importlib.metadata import entry_points  # a worker needs none

    return {point.name: point for point in entry_points(group=GROUP)}
