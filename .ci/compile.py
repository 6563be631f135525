"""Compiles `eventlog/native.pyx` where a checkout is installed. Without a C compiler all works as well, only slower."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "eventlog/native.pyx"


class Compile(BuildHookInterface):
    """Off unless HATCH_BUILD_HOOKS_ENABLE is set: a wheel made without it runs everywhere."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        try:
            made = compiled(root)
        except Exception as error:
            self.app.display_warning(f"{SOURCE} was not compiled: {error}")
            return
        build_data["artifacts"].append(f"/{made.relative_to(root)}")
        build_data["pure_python"], build_data["infer_tag"] = False, True


def compiled(root: Path) -> Path:
    """The extension, made anew beside its source."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(root)
        try:
            extension = Extension("eventlog.native", [SOURCE], extra_compile_args=["-O2", "-g0"])
            command = build_ext(Distribution({"ext_modules": cythonize([extension], build_dir=folder, quiet=True)}))
            command.build_lib, command.build_temp = folder, folder
            command.ensure_finalized()
            command.run()
            built = Path(command.get_ext_fullpath("eventlog.native"))
            return Path(shutil.move(built, root / "eventlog" / built.name))
        finally:
            os.chdir(before)


if __name__ == "__main__":
    print(compiled(Path(__file__).parents[1]))
