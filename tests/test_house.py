"""The house: documents, code and packaging in step, dependencies that may be used, no addresses."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from typer._click.exceptions import UsageError

from cli import reference, tree
from cli.frame import load
from tests.lower_bounds import lower_bounds

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def command_lines() -> Iterator[tuple[str, str]]:
    """Every `trajlog …` in the documents' console blocks and in the examples of the help."""
    for document in DOCUMENTS:
        for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL):
            yield from ((document.name, line.removeprefix("$ ")) for line in block.splitlines())
    for name in tree.COMMANDS:
        command = load(name)
        assert command is not None and command.epilog
        yield from ((name, line.strip()) for line in command.epilog.splitlines()[2:])


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each `trajlog` that a shell line runs."""
    for part in re.split(r"\$\(|\)|\||&&|;", line):
        try:
            words = shlex.split(part)
        except ValueError:
            words = part.split()
        while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        if words[:1] == ["trajlog"]:
            yield words[1:]


def test_every_command_line_in_documents_and_help_is_one() -> None:
    wrong = []
    for place, line in command_lines():
        for words in calls(line):
            try:
                parse(words)
            except (UsageError, LookupError) as error:
                wrong.append(f"{place}: {line}: {error}")
    assert not wrong


def parse(words: list[str]) -> None:
    """Raise unless the words are a command with options and arguments that it knows."""
    if words[:1] in (["--version"], ["--install-completion"], ["--show-completion"], ["--help"]):
        return
    for length in (2, 1):
        name = " ".join(words[:length])
        if name in tree.COMMANDS:
            command = load(name)
            assert command is not None
            arguments = [word for word in words[length:] if not word.startswith(("<", ">"))]
            command.make_parser(typer.Context(command)).parse_args(arguments)
            return
    raise LookupError("no such command")


@pytest.mark.parametrize(("page", "write"), [("cli.md", reference.cli), ("events.md", reference.events)])
def test_reference_pages_are_what_the_code_says(page: str, write: Any) -> None:
    assert (ROOT / "docs" / page).read_text() == write(), "run: make docs"


def test_readme_and_guide_name_every_command_and_setting() -> None:
    from cli.settings import NAMES

    pages = "".join(document.read_text() for document in DOCUMENTS)
    assert [name for name in tree.COMMANDS if f"trajlog {name}" not in pages] == []
    assert [name for name in NAMES if f"TRAJLOG_{name.upper()}" not in pages] == []


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), f"{document.name}: {target}"


def test_readme_names_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for document in DOCUMENTS:
        assert set(re.findall(r"`make ([a-z-]+)`", document.read_text())) <= targets
    assert {"demo", "test", "check", "bench", "faults", "soak", "clean", "docs", "lower-bounds"} <= targets


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(requirements: list[str]) -> set[str]:
    """The distributions that these requirements bring here, by name."""
    found: set[tuple[str, str]] = set()
    queue = [Requirement(text) for text in requirements]
    while queue:
        requirement = queue.pop()
        for extra in ("", *requirement.extras):
            if (normal(requirement.name), extra) not in found:
                found.add((normal(requirement.name), extra))
                needed = [Requirement(text) for text in metadata.requires(requirement.name) or []]
                queue += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


BASE = closure(PROJECT["project"]["dependencies"])


@pytest.mark.parametrize("name", sorted(BASE))
def test_no_dependency_of_the_base_install_is_under_the_gpl(name: str) -> None:
    about = metadata.metadata(name)
    stated = [*(about.get_all("License-Expression") or []), *(text[:200] for text in about.get_all("License") or [])]
    stated += [text for text in about.get_all("Classifier") or [] if text.startswith("License")]
    said = " ".join(stated).lower()
    assert said.strip(), "states no licence"
    lesser = re.sub(r"lgpl|gnu lesser general public", "", said)
    assert "gpl" not in lesser and "general public" not in lesser


def test_the_base_install_is_light() -> None:
    heavy = {"torch", "numpy", "pandas", "pyarrow", "vllm", "transformers", "faiss-cpu", "pydantic", "pymerkle"}
    assert not BASE & heavy
    assert len(BASE) <= 45


def test_constraints_pin_every_dependency_and_hold_no_address() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"]
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+-]+", line) for line in lines)
    pinned = {normal(line.split("==")[0]) for line in lines}
    assert closure([*PROJECT["project"]["dependencies"], *PROJECT["project"]["optional-dependencies"]["dev"]]) <= pinned
    for file in ("pyproject.toml", "Makefile", "constraints.txt", ".ci/run", ".ci/setup"):
        assert "://" not in (ROOT / file).read_text(), file


def test_every_direct_dependency_has_a_lower_bound() -> None:
    assert len(lower_bounds()) == len(PROJECT["project"]["dependencies"]) + len(
        PROJECT["project"]["optional-dependencies"]["dev"]
    )
    for extra in PROJECT["project"]["optional-dependencies"].values():
        assert all(">=" in requirement for requirement in extra)


def test_rooms_are_typed_packages_and_nothing_else_is_top_level() -> None:
    rooms = PROJECT["tool"]["importlinter"]["root_packages"]
    assert all((ROOT / room / "__init__.py").exists() and (ROOT / room / "py.typed").exists() for room in rooms)
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    tops = {line.partition("/")[0] for line in tracked.stdout.splitlines()}
    assert tops <= {*rooms, "tests", "docs", "trajlog.py", ".ci"}


def test_every_folder_of_tests_is_run() -> None:
    options = PROJECT["tool"]["pytest"]["ini_options"]
    folders = {file.relative_to(ROOT).parts[1] for file in (ROOT / "tests").glob("*/**/test_*.py")}
    named = {Path(path).name for path in options["testpaths"]}
    assert folders <= named | set(options["norecursedirs"])


def test_the_licence_is_apache_2() -> None:
    assert "Apache License\n                           Version 2.0" in (ROOT / "LICENSE").read_text()
    assert PROJECT["project"]["license"] == "Apache-2.0"


@pytest.mark.parametrize(("reason", "code"), [("not today", 1), ("mounting a small disk needs root", 0)])
def test_continuous_integration_fails_on_skips_that_are_not_allowed(reason: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_it.py").write_text(
        f"import pytest\ndef test_passes(): pass\ndef test_skipped(): pytest.skip({reason!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": "true"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout


def test_set_up_without_a_fit_python_is_one_clear_line(tmp_path: Path) -> None:
    done = subprocess.run(
        ["sh", ROOT / ".ci" / "setup", tmp_path / "venv"],
        cwd=ROOT,
        env={**os.environ, "PYTHON": "/bin/false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("trajlog: no Python 3.11 or newer was found; ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "venv").exists()
