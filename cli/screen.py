"""The screen of a step as a picture file, opened where there is a desktop."""

import os
import sys
from pathlib import Path

from cli.output import clean, note, print_json, print_text
from cli.settings import settings
from cli.terminal import interactive
from core.errors import UsageError


def show_screen(name: str, step: int, out: Path | None, json: bool, as_of: str | None = None) -> None:
    """Write the screen of a step to `out` or a new file, say where, and open it at a terminal."""
    from cli.reading import position_of, reading
    from eventlog.blobs import BlobStore
    from eventlog.screenshot import draw, seen
    from eventlog.views.named import resolve

    with settings().open() as log:
        cut = position_of(log, as_of)
        with reading(log, as_of=cut) as connection:
            named = resolve(connection, name)
        if named.version is not None:
            raise UsageError("--open takes a step, not an event", where=name, mend="leave the @N out")
        found = seen(list(log.read(named.stream, as_of=cut)), step, named.episode)
    where = f"{named.episode}@{found.screen.version}"
    picture = draw(BlobStore(settings().blobs).get(found.address), found, where)
    file = _write(picture.data, f"trajlog-{named.episode[:16]}-step{step}-", out)
    if json:
        said = {"episode": named.episode, "step": step, "version": found.screen.version}
        print_json({**said, "file": str(file), "notes": picture.notes})
        return
    print_text(clean(str(file)))
    for text in picture.notes:
        note(text)
    if interactive(sys.stdout):
        open_file(file)


def _write(data: bytes, prefix: str, out: Path | None) -> Path:
    if out is None:
        import tempfile

        safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in prefix)
        handle, name = tempfile.mkstemp(prefix=safe, suffix=".png")
        os.close(handle)
        out = Path(name)
    out.write_bytes(data)
    return out


def open_file(file: Path) -> bool:
    """Hand the file to the desktop, if there is one (else False); whether it can show it is its own affair."""
    import shutil
    import subprocess

    if sys.platform == "darwin":
        opener = shutil.which("open")
    else:
        desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        opener = shutil.which("xdg-open") if desktop else None
    if opener is not None:
        subprocess.Popen(
            [opener, str(file.absolute())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    return opener is not None
