"""Recipes as they are written: what is refused, in one line, and what names one exactly."""

import pytest
from jsonschema import Draft202012Validator

from core.errors import UsageError
from learners.recipe import Recipe, canonical, load, parse, schema
from learners.views import NAMES

WHOLE = """
view = "sft_row"
seed = 7
dedup = ["task", "plan"]

[filters]
source = ["tau-bench"]
task = ["airline/*"]
not_tool = ["transfer_to_human_agents"]
min_reward = 1.0
max_steps = 30

[caps]
task = 4
origin = {model = 1000}

[shares]
origin = {"model/*" = 0.5}

[weights]
source = {tau-bench = 2}
balance = ["task"]
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("filter = 1", "r.toml: unknown key filter; did you mean filters?"),
        ('[filters]\ntaks = ["a"]', "r.toml: unknown key filters.taks; did you mean filters.task?"),
        ("[caps]\nqqq = 1", "r.toml: unknown key caps.qqq; there are task, source, origin, policy, environment"),
        ('view = "sft_rows"', "r.toml: view: no such view: 'sft_rows'; did you mean sft_row?"),
        ("[caps]\ntask = -1", "r.toml: caps.task: expected `int` >= 0"),
        ('seed = "a"', "r.toml: seed: expected `int`, got `str`"),
        ("[shares.origin]\nmodel = 1.0", "r.toml: shares.origin: expected `float` < 1.0"),
        ("filters = 3", "r.toml: filters: expected `table`, got `int`"),
        ("view = 3", "r.toml: view: expected `str`, got `int`"),
        (
            '[weights]\nbalance = ["words"]',
            "r.toml: weights.balance[0]: no such name: 'words'; there are task, source, origin, policy, environment",
        ),
        ("x = ", "r.toml: is no TOML: Invalid value (at end of document)"),
    ],
)
def test_what_a_recipe_cannot_hold_is_one_line(text: str, line: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(text, "r.toml")
    assert str(refused.value) == line


def test_a_whole_recipe_fits_the_printed_schema_and_comes_back() -> None:
    import tomllib

    recipe = parse(WHOLE, "r.toml")
    assert load(canonical(recipe)) == recipe
    validator = Draft202012Validator(schema())
    Draft202012Validator.check_schema(schema())
    assert list(validator.iter_errors(tomllib.loads(WHOLE))) == []
    assert [error.json_path for error in validator.iter_errors({"filters": {"taks": 1}})] == ["$.filters"]
    assert schema()["$defs"]["Recipe"]["properties"]["view"]["anyOf"][0]["enum"] == sorted(NAMES)


def test_recipes_that_say_the_same_are_the_same_bytes() -> None:
    assert canonical(parse("", "r")) == canonical(Recipe()) == b"{}"
    for text in ("seed = 0", 'dedup = ["content"]', "[caps]", "[caps]\ntask = {}", "[weights]\nbalance = []"):
        assert canonical(parse(text, "r")) == b"{}"
    assert canonical(parse("dedup = []", "r")) != b"{}"
    one, other = "[weights.task]\na = 2\nb = 3", "weights = {task = {b = 3.0, a = 2.0}}"
    assert canonical(parse(one, "r")) == canonical(parse(other, "r"))
