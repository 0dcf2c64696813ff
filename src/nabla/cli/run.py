"""`nabla run` and `nabla plan`: bring a project up to date, or only say what that would do."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nabla.cli import show
from nabla.cli.locate import LocatedLake, is_lake, locate
from nabla.cli.options import DebugOption, EnvOption, JsonOption, LakeOption, ModeOption
from nabla.cli.output import err, out, print_json, reporting, table, working
from nabla.errors import NablaError

if TYPE_CHECKING:
    from nabla.cli.plan import PlannedObject, ProjectPlan

STYLES = {"new": "green", "changed": "yellow", "gone": "red", "same": "dim"}


SpecOption = Annotated[
    Path | None,
    typer.Option("--spec", help="The project's specification file, whatever its name.", show_default=False),
]


@reporting
def plan(
    spec: SpecOption = None,
    env: EnvOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compare the project with the lake: what is new, changed or gone, what a run would do about it, and what that costs."""
    found = _plan(locate(lake, spec), as_json, env)
    if as_json:
        print_json(found)
    else:
        _show(found)


@reporting
def dry_run(
    spec: SpecOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check the project without reading or writing data: its files, queries, names and cycles. Fails where one is wrong."""
    found = _plan(locate(lake, spec), as_json, None)
    if as_json:
        print_json(found)
    else:
        out().print(f"[green]valid[/]  {len(found.objects)} datasets of {escape(found.project)}")


def _plan(place: LocatedLake, quiet: bool, env: str | None) -> ProjectPlan:
    import nabla
    from nabla.cli.plan import plan_project
    from nabla.cli.projects import read_project

    described = place.described()
    with working("Starting Spark", quiet) as tell, tempfile.TemporaryDirectory() as scratch:
        if is_lake(place.lake):
            opened = place.open(environment=_existing(place, env))
        else:
            opened = nabla.open(Path(scratch) / "lake", spark=place.session())
        tell("Comparing")
        project, reading = read_project(described, opened)
        return plan_project(project, opened, reading, tell)


@reporting
def run(
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="The same as --yes: build changed views again, however large they are.")
    ] = False,
    refresh: Annotated[
        list[str] | None,
        typer.Option("--refresh", help="Only these datasets, with commas between them.", show_default=False),
    ] = None,
    full_refresh: Annotated[
        list[str] | None,
        typer.Option("--full-refresh", help="Only these, from nothing: streams begin anew.", show_default=False),
    ] = None,
    full_refresh_all: Annotated[bool, typer.Option("--full-refresh-all", help="All datasets, from nothing.")] = False,
    spec: SpecOption = None,
    env: Annotated[
        str | None,
        typer.Option("--env", help="Build only what differs from the lake, into this environment.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before something large is built again.")] = False,
    mode: ModeOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring a project up to date: load missing tables, build missing views and those whose definition changed, refresh the
    others. `nabla plan` says what it will do."""
    from nabla.cli.environments import run_in_environment
    from nabla.cli.last_run import note_run, repeated
    from nabla.cli.plan import plan_project
    from nabla.cli.projects import choose, load_tables, read_project, run_project
    from nabla.lake.environments.environments import begin, check_name

    named, full = _listed(refresh), _listed(full_refresh)
    if full_refresh_all and (named or full):
        raise NablaError(
            "NABLA_ARGUMENT",
            "--full-refresh-all is about all datasets, and --refresh or --full-refresh names some",
            place="nabla run",
            remedy="Leave one of them out.",
        )
    place = locate(lake, spec)
    described = place.described()
    if not (env or named or full or full_refresh_all or mode) and (idle := repeated(place, described)) is not None:
        print_json(idle) if as_json else show.run(idle)
        return
    with working("Starting Spark", as_json) as tell:
        if env is not None:
            check_name(env)
        opened = place.open(create=True)
        seen = opened if env is None else place.open(environment=_existing(place, env))
        existed = bool(opened.status())
        tables = load_tables(opened, described, tell)
        tell("Reading the project")
        project, reading = read_project(described, seen)
        choice = choose(project, named, full, full_refresh_all)
        planned = plan_project(project, seen, reading, tell) if existed and not (named or full) else None
    if planned is not None and planned.large and not (yes or rebuild):
        _ask(planned, as_json)
    with working("Running", as_json) as tell:
        kept = planned.kept if planned is not None else frozenset()
        if env is not None:
            begin(opened.context.log, env)
            inside = place.open(environment=env)
            project, reading = read_project(described, inside)
            result = run_in_environment(project, inside, reading, planned, mode=mode, tell=tell)
        else:
            result = run_project(
                project,
                opened,
                reading,
                mode=mode,
                rebuild=True,
                tell=tell,
                kept=kept,
                tables=tables,
                choice=choice,
            )
    if env is None and not (named or full):
        note_run(opened, described, result)
    if as_json:
        print_json(result)
    else:
        show.run(result)
    if any(report.mode == "held" for report in result.refreshed.values()):
        raise typer.Exit(1)


def _listed(names: list[str] | None) -> list[str]:
    """Names that may be given several times, and several at once with commas."""
    return [name.strip() for given in names or [] for name in given.split(",") if name.strip()]


def _existing(place: LocatedLake, env: str | None) -> str | None:
    """The environment if it is there: a plan for a new one is a plan for the lake."""
    from nabla.lake.environments.environments import environments
    from nabla.storage.lakelog import LakeLog

    if env is None:
        return None
    return env if env in [one.name for one in environments(LakeLog.open(str(place.lake)))] else None


def _ask(planned: ProjectPlan, as_json: bool) -> None:
    """Let the user decide about large rebuilds. NABLA_LARGE_REBUILD where there is nobody to ask."""
    large = planned.large
    if as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise NablaError(
            "NABLA_LARGE_REBUILD",
            f"the run would build again: {'; '.join(map(_estimate, large))}",
            place="; ".join(dict.fromkeys(one.place for one in large if one.place)),
            remedy="Look at it with `nabla plan`, and repeat the run with --yes.",
        )
    _show(planned)
    err().print(f"[yellow]large[/]  {escape('; '.join(map(_estimate, large)))}", soft_wrap=True)
    if not typer.confirm("Build this again?", err=True):
        err().print("nothing was done")
        raise typer.Exit(1)


def _estimate(one: PlannedObject) -> str:
    return f"{one.name} ({one.rows:,} rows to read, about {one.seconds:,.1f} s)"


def _show(found: ProjectPlan) -> None:
    headings = ("name", "change", "cost", "rows", "seconds", "readers", "reason")
    grid = table(headings, [], numbers=("rows", "seconds"), tail="reason")
    for one in found.objects:
        change = f"[{STYLES[one.change]}]{one.change}[/]"
        rows = "" if one.rows is None else f"{one.rows:,}"
        seconds = "" if one.seconds is None else f"{one.seconds:,.2f}"
        grid.add_row(
            escape(one.name), change, one.cost, rows, seconds, escape(", ".join(one.readers)), escape(one.reason)
        )
    out().print(grid)
    costs = Counter(one.cost for one in found.objects)
    out().print(", ".join(f"{n} {cost}" for cost, n in costs.items()) or "an empty project")
    if found.large:
        out().print(
            "[yellow]large[/]  a run will ask before it builds again: " + ", ".join(o.name for o in found.large)
        )
