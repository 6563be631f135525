"""`trajlog release`: frozen training sets, and who approved them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli.filters import AsOf
from cli.frame import Json, command
from cli.output import clean, json_text, note, print_json, print_json_array, print_table, print_text, style
from cli.releasing import Name, Out, fetch, find, need_arrow, open_other, place
from cli.settings import settings
from core.errors import UsageError

if TYPE_CHECKING:
    from learners.recipe import Recipe
    from learners.releases.states import Release

By = Annotated[str, typer.Option(metavar="WHO", help="Who decides: an opaque id, not a name.")]
Why = Annotated[str, typer.Option(metavar="TEXT", help="What it rests on.")]

_COLORS = {"approved": "green", "rejected": "red", "draft": "yellow"}


@command(
    "trajlog release build sft --view sft_row",
    "trajlog release build sft --view sft_row --as-of release-1 --recipe recipe.toml --out releases/",
    "trajlog release build groups --view rollout_group --json",
    "trajlog release build sft --view sft_row --cut postgresql://reader@fleet-2/trajlog=2026-09-01",
)
def build(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and ._-")],
    view: Annotated[str, typer.Option(metavar="VIEW", help="sft_row or rollout_group.")],
    as_of: AsOf = None,
    recipe: Annotated[
        Path | None, typer.Option(metavar="FILE", help="How rows are chosen; see trajlog release recipe --schema.")
    ] = None,
    out: Out = None,
    cut: Annotated[
        list[str] | None,
        typer.Option("--cut", metavar="DB=CUT", help="Rows of another log too, as of its TAG, POSITION or TIME."),
    ] = None,
    json: Json = False,
) -> None:
    """Freeze rows of a view as NAME@vN, shards and manifest.

    Its id follows from the rows, the recipe and the fold alone: the same content again is the same version.
    It is a draft until somebody approves it. Episodes of the splits dev, audit and final never enter.

    JSON: {name, version, id, view, rows, shards, excluded: {reason: n}, manifest}.
    """
    from contextlib import ExitStack

    from cli.progress import Progress
    from cli.reading import processes
    from eventlog.disk import faults
    from learners import views

    need_arrow()
    from learners.releases.build import build as build_release
    from learners.releases.manifest import MANIFEST
    from learners.releases.naming import check_name
    from learners.releases.sources import at

    check_name(name)
    chosen = _recipe(recipe)
    found = views.find(view)
    with ExitStack() as stack:
        log = stack.enter_context(settings().open())
        log.seal()
        sources = [at(log, as_of)]
        for given in cut or []:
            url, _, text = given.rpartition("=")
            sources.append(at(stack.enter_context(open_other(url)), text))
        bar = stack.enter_context(Progress("building", unit="rows"))
        stack.enter_context(faults(place(out)))
        built = build_release(
            log, name, found, chosen, sources, place(out), fetch(), progress=bar.update, processes=processes()
        )
    release = built.release.built
    if json:
        print_json(
            {
                "name": name,
                "version": release.version,
                "id": release.release_id,
                "view": release.view,
                "rows": release.rows,
                "shards": release.shards,
                "excluded": release.exclusions,
                "manifest": str(built.folder / MANIFEST),
            }
        )
        return
    rows = "1 row" if release.rows == 1 else f"{release.rows:,} rows"
    state = "" if built.fresh else f", as it was built before ({built.release.state})"
    print_text(f"{clean(str(built.release.named))}: {rows} of {release.view}{state}")
    print_text(f"id {release.release_id}")
    print_text(f"in {clean(str(built.folder))}")
    for reason, count in sorted(release.exclusions.items(), key=lambda pair: -pair[1]):
        print_text(f"  left out: {clean(reason)} {count:,}")


@command("trajlog release ls", "trajlog release ls --json")
def ls(json: Json = False) -> None:
    """List releases.

    By name and version. JSON: [{name, version, id, view, rows, state: draft|approved|rejected, by, why,
    built_at, positions: {log: position}}].
    """
    from core.times import to_text
    from learners.releases import states

    with settings().open() as log:
        found = list(states.every(log))
    if json:
        print_json_array(
            {
                "name": release.name,
                "version": release.version,
                "id": release.built.release_id,
                "view": release.built.view,
                "rows": release.built.rows,
                "state": release.state,
                "by": release.by,
                "why": release.why,
                "built_at": to_text(release.at),
                "positions": {one.log_id: one.position for one in release.built.cuts},
            }
            for release in found
        )
    elif found:
        print_table(
            ("release", "view", "rows", "state", "by", "built", "id"),
            [
                (
                    str(release.named),
                    release.built.view,
                    f"{release.built.rows:,}",
                    release.state,
                    release.by,
                    to_text(release.at)[:19] + "Z",
                    release.built.release_id[:16],
                )
                for release in found
            ],
            right=("rows",),
        )
    else:
        note("no releases yet; trajlog release build NAME --view sft_row makes one")


@command("trajlog release show sft", "trajlog release show sft@v2 --json")
def show(name: Name, json: Json = False) -> None:
    """Show what a release holds, and who decided on it.

    JSON: what the log says of it, {name, state, by, why, decided_at, built_at, version, release_id, cuts:
    [{log_id, position, root, seal, offsets, rows}], view, recipe, seed, rows, shards, files_digest, code: {trajlog,
    fold, text}, upcasters, exclusions, origins, voids, measures}.
    """
    with settings().open() as log:
        release = find(log, name)
    fields = _shown(release)
    if json:
        print_json(fields)
        return
    built = release.built
    state = style(release.state, _COLORS[release.state])
    said = f" by {clean(release.by or '')}: {clean(release.why or '')}" if release.by else ""
    print_text(f"{clean(str(release.named))}  {state}{said}")
    print_text(f"id       {built.release_id}")
    print_text(
        f"rows     {built.rows:,} of {built.view}, in {built.shards:,} {'shard' if built.shards == 1 else 'shards'}"
    )
    for cut in built.cuts:
        print_text(
            f"cut      position {cut.position:,} of the log {cut.log_id}: {cut.rows:,} rows, root {cut.root[:16]}"
        )
    print_text(f"recipe   {json_text(built.recipe, indent=-1)}, seed {built.seed}")
    print_text(f"code     trajlog {clean(built.code.trajlog)}, fold {built.code.fold[:16]}")
    for head, counts in (("origin", built.origins), ("left out", built.exclusions), ("voids", built.voids)):
        for what, count in sorted(counts.items(), key=lambda pair: -pair[1]):
            print_text(f"{head:8} {clean(what)} {count:,}")
    if bytes(built.measures) != b"{}":
        print_text(f"guards   {json_text(built.measures, indent=-1)}")


@command("trajlog release approve sft@v2 --by reviewer-2 --why 'Looked at 50 rows.'")
def approve(name: Name, by: By, why: Why, json: Json = False) -> None:
    """Approve a release: it may be exported for training.

    A release that was decided on is refused. JSON: {name, version, id, state, by, why}.
    """
    _decide(name, approved=True, by=by, why=why, json=json)


@command("trajlog release reject sft@v2 --by reviewer-2 --why 'Goals quote the test bench.'")
def reject(name: Name, by: By, why: Why, json: Json = False) -> None:
    """Reject a release: it is not exported any more.

    Also one that was approved. That is final. JSON: {name, version, id, state, by, why}.
    """
    _decide(name, approved=False, by=by, why=why, json=json)


@command("trajlog release recipe --schema", "trajlog release recipe recipe.toml --json")
def recipe(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="A recipe to be checked.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of recipes.")] = False,
    json: Json = False,
) -> None:
    """Print what a recipe may say, or check one.

    JSON: the schema, or the recipe as a release records it.
    """
    from msgspec import Raw

    from learners import recipe as recipes

    if schema == (file is not None):
        raise UsageError(
            "either print the schema or check a recipe", where="release recipe", mend="give --schema or FILE"
        )
    found: Any = recipes.schema() if schema else Raw(recipes.canonical(_recipe(file)))
    if json:
        print_json(found)
    elif schema:
        print_text(json_text(found, indent=2))
    else:
        print_text(f"{clean(str(file))}: a recipe; what it sets: {json_text(found, indent=-1)}")


def _decide(name: str, *, approved: bool, by: str, why: str, json: bool) -> None:
    from learners.releases import states

    with settings().open() as log:
        release = states.decide(log, find(log, name).named, approved=approved, by=by, why=why)
    if json:
        print_json(
            {
                "name": release.name,
                "version": release.version,
                "id": release.built.release_id,
                "state": release.state,
                "by": release.by,
                "why": release.why,
            }
        )
    else:
        print_text(f"{clean(str(release.named))}: {style(release.state, _COLORS[release.state])}")


def _recipe(file: Path | None) -> "Recipe":
    from learners import recipe as recipes

    if file is None:
        return recipes.Recipe()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError("no such file", where=str(file)) from None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "is no UTF-8 text"
        raise UsageError(f"cannot be read: {why}", where=str(file)) from error
    return recipes.parse(text, str(file))


def _shown(release: "Release") -> dict[str, Any]:
    from msgspec.structs import asdict

    from core.times import to_text

    return {
        "name": release.name,
        "state": release.state,
        "by": release.by,
        "why": release.why,
        "decided_at": None if release.decided_at is None else to_text(release.decided_at),
        "built_at": to_text(release.at),
        **asdict(release.built),
    }
