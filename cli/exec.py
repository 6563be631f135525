"""`trajlog exec`: recorded actions run again, and what comes out otherwise."""

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from cli import filters as options
from cli.frame import Json, command
from cli.output import clean, note, print_json, print_table, print_text, style
from cli.settings import settings
from core.errors import NotFound, Unavailable, UsageError

if TYPE_CHECKING:
    from backends.contract import Manifest, Reach
    from backends.execution import Effect, Environments, Executed, Summary
    from backends.execution import Options as How
    from eventlog.database import Connection
    from eventlog.log import Log
    from eventlog.views.listing import Filters

_REACHES = ("net", "device", "host")
_OFF = "none"


@command(
    "trajlog exec @last",
    "trajlog exec 1f0c --env airline --json",
    "trajlog exec --all --env airline",
    "trajlog exec --task airline/3 --verdict pass --since 7d",
    "trajlog exec --policy planner-27b --first --allow net",
)
def exec(
    episodes: Annotated[list[str] | None, typer.Argument(metavar="[EP]...", help="Episodes, as in show.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every episode that is not retracted.")] = False,
    env: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where to run them; default: where each was recorded.")
    ] = None,
    first: Annotated[bool, typer.Option("--first", help="Stop at an episode's first divergence.")] = False,
    allow: Annotated[
        str | None,
        typer.Option(metavar="net,device,host", help="Let actions reach outside their environment: what, and where."),
    ] = None,
    mask: Annotated[
        str, typer.Option(metavar="time,ids|none", help="Differences that are cosmetic if a second run differs too.")
    ] = "time,ids",
    task: options.Task = None,
    verdict: options.Verdict = None,
    source: options.Source = None,
    policy: options.Policy = None,
    tool: options.Tool = None,
    split: options.Split = None,
    import_: options.Import = None,
    since: options.Since = None,
    retracted: options.Retracted = False,
    json: Json = False,
) -> None:
    """Run recorded actions again, and compare everything that comes back.

    Each episode starts from a fresh environment; its actions go out with the arguments that were
    recorded, byte for byte, and every feedback and state digest is compared. Nothing is asked of a
    model, and messages are not made again. Imported episodes run in a mounted environment (trajlog env
    add): tools are matched by name, results compared as recorded, a recorded error must come again.

    A divergence names the step, the tool, the place (a JSON path) and both values; the first one of an
    episode counts, later ones are marked as after it. Times and generated ids are cosmetic where the
    environment gives another value every time. What is found is recorded as events. Effects outside the
    environment are listed first, and nothing runs until --allow names them.

    Classes: environment_drift (the same action, another world), code_change (another version of
    trajlog's own environment), missing_observation (nothing was recorded to compare with). Exit 0: all
    the same; 1: some diverged; 3: some could not be run or compared; 4: an environment is not available.

    JSON of one: {episode, env, steps, same, masked, diverged: [{version, step, tool, path, expected,
    actual, class, after}], exit, lacking, nondeterministic, why}; of several {episodes, same, diverged,
    incomplete, by: [{tool, path, class, episodes}], results: [the same]}; before --allow {effects:
    [{effect, tools, calls, episodes}]}.
    """
    from backends import environments
    from backends.execution import Environments, Options, exit_code
    from backends.execution import execute as run
    from cli.progress import Progress
    from cli.reading import reading

    chosen = options.filters(
        task=task,
        verdict=verdict,
        source=source,
        policy=policy,
        tool=tool,
        split=split,
        import_=import_,
        since=since,
        retracted=retracted,
    )
    _together(episodes, all_, chosen)
    how = Options(_masks(mask), first, env, _allowed(allow))
    home = settings().home
    instances = Environments(lambda name: environments.find(name, home))
    with settings().open() as log:
        try:
            with reading(log) as connection:
                rows = _rows(connection, episodes, chosen)
            if env is not None:
                instances.get(env)
            elif episodes and len(rows) == 1:
                _recorded_in(rows[0], instances)
            _preflight(log, rows, instances, how, json)
            one = bool(episodes) and len(rows) == 1
            found: list[Executed] = []
            with Progress("running again", total=len(rows), unit="episodes") as bar:
                for result, lines in run(log, [id for id, _ in rows], instances, how):
                    found.append(result)
                    bar.advance()
                    if not json:
                        _print_lines(result, lines if one else lines[:1])
        finally:
            instances.close()
    _print(found, one=one, everything=all_ and not any(chosen), json=json)
    if code := exit_code(found):
        raise typer.Exit(code)


def _together(episodes: list[str] | None, all_: bool, chosen: "Filters") -> None:
    """What was asked for goes together."""
    filtered = any(value for value in chosen)
    if episodes and (all_ or filtered):
        raise UsageError("episodes are named or chosen, not both", where="exec", mend="leave one of them out")
    if not (episodes or all_ or filtered):
        raise UsageError("no episode to run", where="exec", mend="name one, or give --all or a filter as in ls")


def _masks(mask: str) -> tuple[str, ...]:
    from eventlog.comparison.differences import MASKS

    names = tuple(dict.fromkeys(name.strip() for name in mask.split(",") if name.strip()))
    if names == (_OFF,):
        return ()
    for name in names:
        if name not in MASKS:
            raise UsageError(f"{name!r} cannot be masked", where="--mask", mend=f"use {', '.join(MASKS)}, or {_OFF}")
    return names


def _allowed(allow: str | None) -> "frozenset[Reach]":
    names = [name.strip() for name in (allow or "").split(",") if name.strip()]
    for name in names:
        if name not in _REACHES:
            raise UsageError(f"{name!r} is no effect", where="--allow", mend=f"use {', '.join(_REACHES)}")
    return frozenset(names)  # type: ignore[arg-type]


def _rows(connection: "Connection", episodes: list[str] | None, chosen: "Filters") -> list[tuple[str, str | None]]:
    """The episodes and where each was recorded."""
    from eventlog.views import listing
    from eventlog.views.named import resolve

    fields = ("episode", "environment")
    if not episodes:
        found = listing.episodes(connection, chosen, listing.Page(reverse=True, limit=0), fields)
        return [(row["episode"], row["environment"]) for row in found]
    rows = []
    for name in episodes:
        named = resolve(connection, name)
        if named.version is not None:
            raise UsageError("whole episodes are run", where=name, mend="leave the @N out")
        row = listing.episode(connection, named.episode, fields) or {}
        rows.append((named.episode, row.get("environment")))
    return list(dict.fromkeys(rows))


def _recorded_in(row: tuple[str, str | None], instances: "Environments") -> None:
    """The environment that the one episode was recorded in must be there."""
    id, name = row
    if name is None:
        raise UsageError("it does not say where it ran", where=id, mend="give --env NAME; trajlog env ls lists them")
    try:
        instances.get(name)
    except NotFound:
        raise Unavailable(
            f"it was recorded in {name!r}, and no environment is called so here",
            where=id,
            mend="give --env NAME, or mount it: trajlog env add",
        ) from None


def _preflight(
    log: "Log", rows: list[tuple[str, str | None]], instances: "Environments", how: "How", json: bool
) -> None:
    """Stop before anything happens outside the environments that was not allowed."""
    from backends.execution import effects
    from backends.execution.recorded import read
    from core.errors import TrajlogError

    manifests: dict[str, Manifest] = {}
    for name in dict.fromkeys(how.env or env for _, env in rows):
        try:
            found = instances.get(name).describe() if name is not None else None
        except TrajlogError:
            continue
        if name is not None and found is not None and (found.open_world or found.backend == "device"):
            manifests[name] = found
    ids = {id: how.env or env for id, env in rows if (how.env or env) in manifests}
    listed = list(ids)
    planned = (
        (episode, manifests[ids[episode.id] or ""])
        for at in range(0, len(listed), 64)
        for episode in read(log, listed[at : at + 64])
    )
    firing = effects(planned) if listed else []
    barred = [one.effect for one in firing if one.effect not in how.allow]
    if not barred:
        return
    if json:
        print_json({"effects": firing})
    else:
        for one in firing:
            print_text(_effect(one))
    raise UsageError(
        "nothing was run: actions would reach outside the environment", where="exec", mend=f"--allow {','.join(barred)}"
    )


def _effect(one: "Effect") -> str:
    calls = "1 call" if one.calls == 1 else f"{one.calls:,} calls"
    episodes = "1 episode" if one.episodes == 1 else f"{one.episodes:,} episodes"
    return f"{one.effect}: {clean(', '.join(one.tools))}, {calls} in {episodes}"


def _print_lines(result: "Executed", lines: list[str]) -> None:
    for text in lines:
        print_text(f"{style('DIVERGED', 'red')} ep={clean(result.episode)} {clean(text)}")


def _print(found: "list[Executed]", *, one: bool, everything: bool, json: bool) -> None:
    from backends.execution import summary

    if one:
        if json:
            print_json(found[0])
        else:
            _print_unrun(found)
            _print_one(found[0])
        return
    told = summary(found)
    if json:
        print_json(told)
        return
    _print_unrun(found)
    if not found:
        some = "trajlog import FILE brings some, trajlog run makes some"
        note(f"no episodes; {some}" if everything else "no episode fits; trajlog ls says which there are")
        return
    _print_many(told)


def _print_unrun(found: "list[Executed]") -> None:
    """Why episodes were not run, each reason once."""
    reasons: dict[str, list[Executed]] = {}
    for result in found:
        if result.why is not None:
            reasons.setdefault(result.why, []).append(result)
    for why, results in reasons.items():
        more = "" if len(results) == 1 else f" and {len(results) - 1:,} more"
        tools = sorted({name for result in results for name in result.lacking})
        named = f" ({', '.join(tools)})" if tools else ""
        print_text(f"{style('INCOMPLETE', 'yellow')} ep={clean(results[0].episode)}{more}: {clean(why + named)}")


def _print_one(result: "Executed") -> None:
    if result.why is None:
        steps = "1 step" if result.steps == 1 else f"{result.steps:,} steps"
        print_text(f"{result.same:,} of {steps} the same in {clean(result.env or '-')}{_masked(result.masked)}")
        _print_findings([result])


def _print_many(told: "Summary") -> None:
    if told.by:
        rows = [(one.tool, one.path, one.class_, f"{one.episodes:,}") for one in told.by]
        print_table(("tool", "field", "class", "episodes"), rows, right=("episodes",))
    episodes = "1 episode" if told.episodes == 1 else f"{told.episodes:,} episodes"
    envs = sorted({result.env for result in told.results if result.env is not None and result.why is None})
    where = f" in {clean(', '.join(envs))}" if envs else ""
    print_text(
        f"{episodes}{where}: {told.same:,} the same, {told.diverged:,} diverged, {told.incomplete:,} incomplete"
        f"{_masked(sum(result.masked for result in told.results))}"
    )
    _print_findings(told.results)


def _masked(count: int) -> str:
    return f", {count:,} cosmetic difference{'s' if count > 1 else ''} left out" if count else ""


def _print_findings(found: "list[Executed]") -> None:
    """Tools that are missing, and those that answer otherwise every time."""
    lacking = Counter((name, result.env) for result in found if result.why is None for name in result.lacking)
    for (name, env), count in sorted(lacking.items(), key=str):
        calling = "1 episode calls it" if count == 1 else f"{count:,} episodes call it"
        print_text(f"{clean(env or '-')} has no tool {clean(name)}: {calling}")
    varying = Counter(name for result in found for name in result.nondeterministic)
    for name, count in sorted(varying.items()):
        print_text(f"{clean(name)} is not deterministic: run again it differs, in {count:,} of the episodes")
