"""The wheel: built, installed elsewhere, run, and upgraded."""

import json
import os
import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

import trajlog

ROOT = Path(__file__).parents[1]
SHIPPED = ("core", "eventlog", "backends", "harness", "learners", "cli", "migrations")
FILES = ("trajlog.py", "pyproject.toml", "README.md", "LICENSE")


def build(folder: Path, version: str) -> Path:
    """A wheel of this checkout under that version, built without the network."""
    source = folder / f"the source of {version}"
    for room in SHIPPED:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in FILES:
        shutil.copy(ROOT / file, source / file)
    module = source / "trajlog.py"
    module.write_text(module.read_text().replace(trajlog.__version__, version))
    (source / "tests").mkdir()
    (source / "tests" / "test_nothing.py").touch()
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / f"trajlog-{version}-py3-none-any.whl"


def install(python: Path, wheel: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", "--upgrade", str(wheel)], check=True)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment that sees the dependencies installed here, but no checkout."""
    folder = tmp_path_factory.mktemp("an environment")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return folder


def test_the_wheel_is_installed_runs_and_is_upgraded(elsewhere: Path, tmp_path: Path) -> None:
    python = elsewhere / "bin" / "python"
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("TRAJLOG", "PYTHON"))}
    variables["TRAJLOG_HOME"] = str(tmp_path / "home")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        script = elsewhere / "bin" / "trajlog"
        return subprocess.run(
            [script, *arguments], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
        )

    first = build(tmp_path, trajlog.__version__)
    with zipfile.ZipFile(first) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {*SHIPPED, "trajlog.py"}
    assert {f"{room}/py.typed" for room in SHIPPED} <= names
    assert {f"eventlog/report/{file}" for file in ("page.html", "style.css", "script.js")} <= names
    assert not [name for name in names if "test_" in name or name.endswith(".pyc")]

    install(python, first)
    assert run("--version").stdout == f"trajlog {trajlog.__version__}\n"
    report = json.loads(run("doctor", "--json").stdout)
    imports = next(check for check in report["checks"] if check["name"] == "imports")
    assert imports["status"] == "ok"
    assert str(elsewhere) in imports["detail"]
    assert report["ok"]

    stray = next(elsewhere.glob("lib/python*/site-packages/core/errors.py"))
    whole = stray.read_text()
    stray.write_text(whole + "\n")
    assert "core/errors.py differ" in run("doctor").stdout
    stray.write_text(whole)

    install(python, build(tmp_path, "99.1.0"))
    assert run("--version").stdout == "trajlog 99.1.0\n"
    assert run("doctor").returncode == 0
