"""A release in the formats that trainers read: parquet, hf (a folder for `datasets.load_from_disk`), openai (chat
as JSON lines), atif (trajectories). What was not approved leaves only to be looked at."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from msgspec import Raw

from core.errors import TrajlogError, UsageError
from core.identity import uuid_bytes
from eventlog.disk import write_atomic
from learners.releases import arrow, checking, manifest
from learners.releases.folder import beside, move
from learners.releases.manifest import MANIFEST, ORDER, Manifest
from learners.releases.states import Release

if TYPE_CHECKING:
    from eventlog.interchange.whole import Fetch
    from eventlog.log import Log

FORMATS: Final = ("parquet", "hf", "openai", "atif")

_MODE = 0o644


class NotApproved(TrajlogError):
    """A release that nobody approved, or somebody rejected."""


def check_approved(release: Release, *, review: bool) -> None:
    """`NotApproved` unless it may be trained on, or is only looked at."""
    if release.state == "approved" or review:
        return
    if release.state == "draft":
        said, mend = "is a draft", "trajlog release approve does that"
    else:
        said, mend = f"was rejected by {release.by}: {release.why}", "build another release"
    raise NotApproved(
        f"{said}; it is not exported for training",
        where=str(release.named),
        mend=f"{mend}, --review exports it to be looked at",
    )


def export(
    release: Release,
    folder: Path,
    format: str,
    to: Path,
    *,
    logs: "Sequence[Log]" = (),
    fetch: "Fetch",
    force: bool = False,
) -> int:
    """Write the release to a new folder, whole or not at all; returns how many rows. `Corrupt` where its files
    were edited."""
    found = manifest.read(folder)
    checking.refuse_edited(folder, found, release)
    if format in ("openai", "atif") and "messages" not in found.schema:
        raise UsageError(f"{release.built.view} has no messages", where="--format", mend="use parquet or hf")
    if to.exists() and (not to.is_dir() or any(to.iterdir())) and not force:
        raise UsageError("is there already", where=str(to), mend="give another place or --force")
    to = to.absolute()
    to.parent.mkdir(parents=True, exist_ok=True)
    with beside(to.parent) as made:
        if format == "parquet":
            _parquet(found, folder, made)
        elif format == "hf":
            _hf(found, folder, made, str(release.named))
        elif format == "openai":
            _openai(found, folder, made)
        else:
            _atif(found, folder, made, logs, fetch)
        for name in (MANIFEST, ORDER):
            shutil.copyfile(folder / name, made / name)
        if to.exists():
            shutil.rmtree(to) if to.is_dir() else to.unlink()
        move(made, to)
    return release.built.rows


def _parquet(found: Manifest, folder: Path, to: Path) -> None:
    """In a folder of their own, and named as `datasets.load_dataset` looks for a split."""
    import pyarrow.parquet as pq

    (to / "data").mkdir()
    for i, name in enumerate(found.shards):
        target = to / "data" / f"train-{i:05}-of-{len(found.shards):05}.parquet"
        batches = arrow.batches(folder / name)
        first = next(batches)
        with pq.ParquetWriter(target, first.schema, compression="zstd") as writer:
            writer.write_table(pa.Table.from_batches([first, *batches]))


def _hf(found: Manifest, folder: Path, to: Path, name: str) -> None:
    """As `Dataset.save_to_disk` lays it out: the shards are such files already."""
    files = []
    for i, shard in enumerate(found.shards):
        files.append({"filename": f"data-{i:05}-of-{len(found.shards):05}.arrow"})
        shutil.copyfile(folder / shard, to / files[-1]["filename"])
    state: dict[str, Any] = {
        "_data_files": files,
        "_fingerprint": found.built.release_id[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": "train",
    }
    info = {"citation": "", "description": f"trajlog release {name}", "homepage": "", "license": ""}
    for file, content in (("state.json", state), ("dataset_info.json", info)):
        write_atomic(to / file, msgspec.json.format(msgspec.json.encode(content)) + b"\n", _MODE)


def _openai(found: Manifest, folder: Path, to: Path) -> None:
    with (to / "train.jsonl").open("wb") as file:
        for row in _rows(found, folder, ["messages", "tool_schemas"]):
            document: dict[str, Any] = {"messages": [_message(message) for message in row["messages"]]}
            if row["tool_schemas"] is not None:
                document["tools"] = Raw(row["tool_schemas"].encode())
            file.write(msgspec.json.encode(document) + b"\n")


def _message(message: dict[str, Any]) -> dict[str, Any]:
    parts = message["parts"]
    made: dict[str, Any] = {"role": message["role"]}
    made["content"] = Raw(parts.encode()) if parts is not None else message["content"]
    if message["name"] is not None:
        made["name"] = message["name"]
    if message["thought"] is not None:
        made["reasoning_content"] = message["thought"]
    if message["tool_calls"]:
        made["tool_calls"] = message["tool_calls"]
    if message["tool_call_id"] is not None:
        made["tool_call_id"] = message["tool_call_id"]
    if message["role"] == "assistant":
        made["weight"] = int(message["train"])
    return made


def _atif(found: Manifest, folder: Path, to: Path, logs: "Sequence[Log]", fetch: "Fetch") -> None:
    from eventlog.interchange.export.exporter import Library, find
    from eventlog.interchange.export.outlet import outlet

    exporter = find("atif")
    given = {log.log_id: log for log in logs}
    cuts = found.built.cuts
    with outlet(f"{to}/", exporter.suffix, (), fetch, force=True) as place:
        library = Library(fetch, image=place.image)
        for row in _rows(found, folder, ["log", "stream"]):
            cut = cuts[row["log"]]
            log = given.get(uuid_bytes(cut.log_id))
            if log is None:
                raise UsageError(f"it draws on the log {cut.log_id} too", where="--cut", mend="give its database")
            episode = row["stream"].removeprefix("episode/")
            events = list(log.read(row["stream"], as_of=cut.position))
            place.put(episode, exporter.document(episode, events, library))


def _rows(found: Manifest, folder: Path, columns: list[str]) -> Iterator[dict[str, Any]]:
    for name in found.shards:
        for batch in arrow.batches(folder / name):
            yield from batch.select(columns).to_pylist()
