"""The manifest: what a release says of itself, in the file `manifest.json` of its folder."""

from pathlib import Path
from typing import Any, Final

import msgspec

from core.errors import BadRecord, NotFound
from core.vocabulary.release import ReleaseBuilt
from learners.releases.canonical import files_digest

FORMAT: Final = "trajlog/release/1"
MANIFEST: Final = "manifest.json"
ROWS: Final = "rows.arrow"
ORDER: Final = "order.arrow"

_decode = msgspec.json.Decoder


class File(msgspec.Struct, frozen=True):
    """A file of the folder."""

    sha256: str
    bytes: int
    rows: int


class Manifest(msgspec.Struct, frozen=True):
    """`built` is what the log says, word for word. `schema` names each column's type; `order` says how
    `order.arrow` follows from the seed."""

    name: str
    built: ReleaseBuilt
    schema: dict[str, str]
    chunk: int
    shard: int
    files: dict[str, File]
    format: str = FORMAT
    order: str = "by SHAKE-128(trajlog/order/1, seed, rows)"

    @property
    def shards(self) -> list[str]:
        """The files that hold the rows, in order."""
        return [name for name in sorted(self.files) if name.startswith("data-")]


def digest_of(files: dict[str, File]) -> str:
    """The digest of the files, as the log has it."""
    return files_digest((name, file.sha256) for name, file in files.items())


def write(folder: Path, manifest: Manifest) -> None:
    """Write it, durably."""
    import os

    with (folder / MANIFEST).open("wb") as file:
        file.write(encoded(manifest))
        file.flush()
        os.fsync(file.fileno())


def encoded(manifest: Manifest) -> bytes:
    """The file's bytes."""
    fields: dict[str, Any] = {"format": manifest.format, "name": manifest.name}
    fields |= {name: getattr(manifest.built, name) for name in manifest.built.__struct_fields__}
    for name in ("schema", "chunk", "shard", "order", "files"):
        fields[name] = getattr(manifest, name)
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def read(folder: Path) -> Manifest:
    """The manifest of a folder. `NotFound`; `BadRecord` if it is none."""
    path = folder / MANIFEST
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            "no release is there", where=str(folder), mend="trajlog release rebuild writes it again"
        ) from None
    except OSError as error:
        raise NotFound(f"cannot be read: {error.strerror}", where=str(path)) from error
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        own = {
            name: msgspec.json.decode(fields.pop(name))
            for name in ("format", "name", "chunk", "shard", "order", "schema")
        }
        files = msgspec.json.decode(fields.pop("files"), type=dict[str, File])
        built = msgspec.json.decode(msgspec.json.encode(fields), type=ReleaseBuilt)
        manifest = msgspec.convert({"built": built, "files": files, **own}, Manifest)
    except (msgspec.MsgspecError, KeyError, ValueError, RecursionError) as error:
        raise BadRecord(
            "was edited: it is no manifest any more", where=str(path), mend="run: trajlog release rebuild --force"
        ) from error
    if manifest.format != FORMAT:
        raise BadRecord(f"is of the format {manifest.format[:40]!r}, not {FORMAT}", where=str(path))
    return manifest
