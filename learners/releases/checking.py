"""Whether a release's folder is what was built: every file, by name."""

from hashlib import file_digest
from pathlib import Path

import msgspec

from core.errors import Corrupt
from learners.releases.canonical import Rows, release_id
from learners.releases.manifest import MANIFEST, ROWS, Manifest, digest_of, encoded
from learners.releases.states import Release


class Fault(msgspec.Struct, frozen=True):
    """A file that is not as it was, and how."""

    file: str
    why: str


def fault(folder: Path, manifest: Manifest, release: Release | None) -> Fault | None:
    """The first of `faults`."""
    return next(iter(faults(folder, manifest, release)), None)


def refuse_edited(folder: Path, manifest: Manifest, release: Release) -> None:
    """`Corrupt` where the folder is not what was built."""
    found = fault(folder, manifest, release)
    if found is not None:
        raise Corrupt(
            found.why, where=str(folder / found.file), mend=f"run: trajlog release rebuild {release.named} --force"
        )


def faults(folder: Path, manifest: Manifest, release: Release | None) -> list[Fault]:
    """Every file that is missing, added or not as it was. `release` is what the log says of it; without that
    the files are held against the manifest, and it against the id of the rows."""
    found = [*_manifest(folder, manifest, release)]
    for name, file in sorted(manifest.files.items()):
        path = folder / name
        if "/" in name or not path.is_file() or path.is_symlink():
            found.append(Fault(name, "is missing"))
            continue
        with path.open("rb") as opened:
            same = file_digest(opened, "sha256").hexdigest() == file.sha256
        if not same:
            found.append(Fault(name, "was edited: its SHA-256 is not the manifest's"))
    known = {MANIFEST, *manifest.files}
    found += [
        Fault(path.name, "does not belong to the release")
        for path in sorted(folder.iterdir())
        if path.name not in known
    ]
    if not found and release is None and _id_of(folder, manifest) != manifest.built.release_id:
        found.append(Fault(MANIFEST, "was edited: its id is not that of the rows"))
    return found


def _manifest(folder: Path, manifest: Manifest, release: Release | None) -> list[Fault]:
    if digest_of(manifest.files) != manifest.built.files_digest:
        return [Fault(MANIFEST, "was edited: the files it lists are not those that were built")]
    path = folder / MANIFEST
    if not path.is_file():
        return [Fault(MANIFEST, "is missing")]
    if path.read_bytes() != encoded(manifest):
        return [Fault(MANIFEST, "was edited: it is not as it was written")]
    if release is not None:
        if manifest.name != release.name:
            return [Fault(MANIFEST, f"was edited: it is {release.name}, not {manifest.name[:80]}")]
        for name in release.built.__struct_fields__:
            if _plain(getattr(manifest.built, name)) != _plain(getattr(release.built, name)):
                return [Fault(MANIFEST, f"was edited: {name} is not what the log says")]
    return []


def _plain(value: object) -> bytes:
    """A value as JSON without white space."""
    return msgspec.json.format(msgspec.json.encode(value), indent=-1)


def _id_of(folder: Path, manifest: Manifest) -> str:
    """The id that follows from the rows' digests."""
    from core.identity import uuid_bytes
    from learners.releases import index

    built = manifest.built
    logs = [uuid_bytes(cut.log_id) for cut in built.cuts]
    rows = {log: Rows() for log in logs}
    for entry in index.entries(folder / ROWS, logs):
        rows[entry.key.log_id].add(entry.digest)
    view, _, version = built.view.partition("@")
    digests = [found.digest() for found in rows.values() if found.count]
    return release_id(view, int(version), built.code.text, _plain(built.recipe), digests).hex()
