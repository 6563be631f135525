"""The guide's own examples are what it says they are."""

import re
from pathlib import Path

from backends import faults, script, tasks
from backends.gate import admit
from backends.phone import Phone

GUIDE = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()


def blocks(language: str, word: str) -> list[str]:
    found = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return [block for block in found if word in block]


def test_the_guides_script_and_faults_can_be_read() -> None:
    [steps] = blocks("json", '"say"')
    assert len(script.parse(steps.encode())) == 3
    [plan] = blocks("json", '"fault"')
    assert len(faults.parse(plan.encode())) == 3


def test_the_guides_task_gets_through_the_gate(tmp_path: Path) -> None:
    [task] = blocks("toml", 'id = "tea"')
    (tmp_path / "tea.toml").write_text(task)
    decided = admit(tasks.read(tmp_path / "tea.toml")[0], Phone)
    assert decided.why is None
