"""Screenshots that a record names by their path: found beside the file that names them."""

from functools import lru_cache
from os.path import isdir, isfile
from pathlib import Path

from eventlog.interchange.mapping import images
from eventlog.interchange.mapping.images import Fault

MAX_IMAGE = 32 << 20


class Screens:
    """The images under a folder, by the paths that another machine knew them by."""

    def __init__(self, folder: Path | None) -> None:
        self._root = folder.resolve() if folder else None
        self._folders = lru_cache(maxsize=256)(self._folders_for)

    def read(self, recorded: str, fault: Fault) -> bytes | None:
        """The image: in the path itself if it is a data URL, else the file whose path under the folder
        is the longest tail of the recorded one. None if there is none; a `fault` if it is no image."""
        if images.is_data_url(recorded):
            return images.of_data_url(recorded, fault)
        path = self._find(recorded)
        if path is None:
            return None
        try:
            with path.open("rb") as file:
                data = file.read(MAX_IMAGE + 1)
        except OSError as error:
            raise fault(f"{path.name} cannot be read: {error.strerror}") from None
        why = f"larger than {MAX_IMAGE >> 20} MB" if len(data) > MAX_IMAGE else images.fault_of(data)
        if why:
            raise fault(f"{path.name} is {why}")
        return data

    def _find(self, recorded: str) -> Path | None:
        """Nothing outside the folder is looked at, whatever the path says and wherever links lead."""
        folder, _, name = recorded.replace("\\", "/").rpartition("/")
        if self._root is None or name in ("", ".."):
            return None
        for place in self._folders(folder):
            path = f"{place}/{name}"
            if isfile(path) and Path(path).resolve().is_relative_to(self._root):  # noqa: PTH113 - a third of the time
                return Path(path)
        return None

    def _folders_for(self, recorded: str) -> list[str]:
        """The folders that exist under ours for a recorded one, the longest tail first."""
        parts = [part for part in recorded.split("/") if part not in ("", ".")]
        if self._root is None or ".." in parts:
            return []
        tails = (self._root.joinpath(*parts[first:]) for first in range(len(parts) + 1))
        return [str(tail) for tail in tails if isdir(tail)]  # noqa: PTH112


@lru_cache(maxsize=16)
def screens_of(folder: Path | None) -> Screens:
    """The images under a folder; what was found there is remembered."""
    return Screens(folder)
