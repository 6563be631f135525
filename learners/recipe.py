"""How rows are chosen for a release: `recipe.toml`, read and checked. `learners.selection` applies it.

Values are named exactly or by a pattern with `*`, as in `airline/*`. Where a recipe is silent nothing is
left out but exact duplicates.
"""

import tomllib
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from core import choices
from core.errors import UsageError

Dimension = Literal["task", "source", "origin", "policy", "environment"]
"""What caps, shares and weights go by. The origin is human, scripted or model; a model that was trained
on releases of ours has its generation with it: model/1."""

DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)

Name = Literal["sft_row", "rollout_group"]

Same = Literal["content", "task", "plan", "policy", "origin", "source", "environment"]

Names = Annotated[list[str], Meta(description="exact names, or patterns with *", min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Rows = Annotated[int, Meta(description="rows", ge=0)]
Share = Annotated[float, Meta(description="of all rows that are kept", ge=0, lt=1)]
Weight = Annotated[float, Meta(description="how often a row is drawn, against others", gt=0, le=1e6)]


class Strict(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A table of a recipe."""


class Filters(Strict, frozen=True):
    """Rows that may come in. All must hold; a row without the value does not pass."""

    task: Names | None = None
    source: Names | None = None
    origin: Names | None = None
    policy: Names | None = None
    environment: Names | None = None
    judged_by: Names | None = None
    tool: Annotated[Names | None, Meta(description="calls one of these tools")] = None
    not_task: Names | None = None
    not_source: Names | None = None
    not_origin: Names | None = None
    not_policy: Names | None = None
    not_tool: Annotated[Names | None, Meta(description="calls none of these tools")] = None
    min_reward: float | None = None
    min_supervised: Annotated[Count | None, Meta(description="turns, or judged rollouts, that train")] = None
    max_steps: Count | None = None
    max_tokens: Annotated[Count | None, Meta(description="of the longest context")] = None


class Caps(Strict, frozen=True):
    """At most so many rows: of each value, or of those that are named."""

    task: Rows | dict[str, Rows] | None = None
    source: Rows | dict[str, Rows] | None = None
    origin: Rows | dict[str, Rows] | None = None
    policy: Rows | dict[str, Rows] | None = None
    environment: Rows | dict[str, Rows] | None = None


class Shares(Strict, frozen=True):
    """At most such a part of all rows that are kept: `{"model/*" = 0.5}` caps what our own models made."""

    task: dict[str, Share] = {}
    source: dict[str, Share] = {}
    origin: dict[str, Share] = {}
    policy: dict[str, Share] = {}
    environment: dict[str, Share] = {}


class Weights(Strict, frozen=True):
    """Sampling weights: the product of all that fit, 1 by default, scaled so that the mean is 1."""

    task: dict[str, Weight] = {}
    source: dict[str, Weight] = {}
    origin: dict[str, Weight] = {}
    policy: dict[str, Weight] = {}
    environment: dict[str, Weight] = {}
    balance: Annotated[
        list[Dimension], Meta(description="every value of these counts the same, however many rows it has")
    ] = []


class Recipe(Strict, frozen=True):
    """A recipe; where it is silent nothing is left out but exact duplicates."""

    view: Annotated[Name | None, Meta(description="the view it is for; null = any")] = None
    seed: Annotated[int, Meta(description="of every choice that is left to chance", ge=0, lt=2**53)] = 0
    filters: Filters = Filters()
    dedup: Annotated[
        list[Same] | None,
        Meta(description="of rows that are equal in all of these one is kept; [] = keep all, null = content"),
    ] = None
    caps: Caps = Caps()
    shares: Shares = Shares()
    weights: Weights = Weights()

    @property
    def same(self) -> list[Same]:
        """What duplicates are equal in."""
        return ["content"] if self.dedup is None else self.dedup


def parse(text: str, where: str) -> Recipe:
    """A recipe from TOML. `UsageError`, one line, with the nearest name for a key or view that there is none of."""
    from learners.views import find

    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"is no TOML: {error}", where=where) from error
    _known(given, Recipe, where, "")
    if isinstance(given.get("view"), str):
        try:
            find(given["view"])
        except UsageError as error:
            raise UsageError(error.what, where=f"{where}: view", mend=error.mend) from error
    try:
        return msgspec.convert(given, Recipe)
    except msgspec.ValidationError as error:
        raise _unfit(str(error), where) from error


def schema() -> dict[str, Any]:
    """The JSON schema of a recipe."""
    found = msgspec.json.schema(Recipe)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "trajlog recipe", **found}


def canonical(recipe: Recipe) -> bytes:
    """The recipe as JSON, sorted, without defaults: equal recipes, equal bytes."""
    said: dict[str, Any] = _slim(msgspec.to_builtins(recipe))
    if said.get("dedup") == ["content"]:
        del said["dedup"]
    return msgspec.json.encode(said, order="sorted")


def load(data: bytes) -> Recipe:
    """The recipe of which these are the canonical bytes."""
    return msgspec.json.decode(data, type=Recipe)


def _slim(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    slim = {name: _slim(inner) for name, inner in value.items()}
    return {name: inner for name, inner in slim.items() if inner is not None and inner != {}}


def _known(given: Any, table: type[Strict], where: str, path: str) -> None:
    """`UsageError` for the first key that the table does not have."""
    fields = {field.name: field.type for field in msgspec.structs.fields(table)}
    for name, value in given.items():
        if name not in fields:
            raise UsageError(f"unknown key {path}{name}", where=where, mend=_mend(name, fields, path))
        inner = fields[name]
        if isinstance(inner, type) and issubclass(inner, Strict) and isinstance(value, dict):
            _known(value, inner, where, f"{path}{name}.")


def _mend(name: str, fields: Iterable[str], path: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(fields), n=1, cutoff=0.5)
    return f"did you mean {path}{near[0]}?" if near else f"there are {', '.join(fields)}"


def _unfit(said: str, where: str) -> UsageError:
    """What msgspec says of a value, as one says it of TOML."""
    what, _, place = said.partition(" - at `$")
    place = place.rstrip("`").lstrip(".").replace("[...]", "")
    for theirs, ours in (
        ("object", "table"),
        ("array", "list"),
        (" | null", ""),
        ("Invalid enum value", "no such name:"),
    ):
        what = what.replace(theirs, ours)
    what = what[:1].lower() + what[1:]
    return UsageError(f"{place}: {what}" if place else what, where=where, mend=choices.mend(said, Recipe))
