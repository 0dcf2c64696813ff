"""The commands of `nabla`. Spark is imported by the commands that need it, so that help is instant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nabla.cli import alter, bench, bench_write, housekeeping, integrity, show
from nabla.cli.advise import advise
from nabla.cli.bench_answers import answers
from nabla.cli.bench_long import long
from nabla.cli.bench_rerun import rerun
from nabla.cli.bench_store import store
from nabla.cli.console import page, ui
from nabla.cli.environment_commands import env_app, promote
from nabla.cli.lineage import lineage
from nabla.cli.locate import locate
from nabla.cli.options import (
    DebugOption,
    EnvOption,
    FormOption,
    JsonOption,
    LakeOption,
    LimitOption,
    ModeOption,
    NamesArgument,
)
from nabla.cli.output import out, print_json, reporting, working
from nabla.cli.run import dry_run, plan, run
from nabla.cli.testing import run_view_tests
from nabla.cli.trust import trust
from nabla.cli.watch import watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from nabla.lake.reports import Verified

app = typer.Typer(
    name="nabla",
    help="Incremental materialized views on Apache Spark: a refresh computes only what changed.",
    epilog="Start with `nabla demo`, or with `nabla init shop && cd shop && nabla run`.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from nabla import __version__

        out().print(f"nabla {__version__}")
        raise typer.Exit


bench.app.command()(bench_write.write)
bench.app.command()(long)
bench.app.command()(store)
bench.app.command()(rerun)
bench.app.command()(answers)
app.add_typer(bench.app)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
@reporting
def init(
    folder: Annotated[
        Path | None, typer.Argument(metavar="NAME", help="The folder to make.", show_default=False)
    ] = None,
    name: Annotated[Path | None, typer.Option("--name", help="The same.", show_default=False)] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make a small project that works as it is: tables, views in SQL and Python, sample data."""
    from nabla.cli.starter import create_project

    wanted = folder or name
    if wanted is None:
        raise typer.BadParameter("give the name of a folder")
    files = create_project(wanted)
    if as_json:
        print_json({"project": wanted, "files": files})
        return
    console = out()
    for file in files:
        console.print(f"  [green]+[/] {wanted / file}")
    console.print(f"\nNext: [bold]cd {wanted} && nabla run[/]")


@app.command()
@reporting
def refresh(
    names: NamesArgument = None,
    mode: ModeOption = None,
    env: EnvOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Bring views up to date with their sources, and say how it was done. Fails where a constraint holds one back."""
    place = locate(lake)
    with working("Starting Spark", as_json) as tell:
        opened = place.open(environment=env)
        tell("Refreshing")
        reports = opened.refresh(
            *(names or ()),
            mode=mode or place.mode,
            progress=lambda report: tell(f"Refreshed {report.name}"),
        )
    if as_json:
        print_json(reports)
    else:
        show.reports(reports)
    if reports.held:
        raise typer.Exit(1)


@app.command()
@reporting
def propagate(
    names: NamesArgument = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Compute the changes of views that were made with propagate="ahead"; the next refresh only applies them."""
    with working("Starting Spark", as_json) as tell:
        opened = locate(lake).open()
        tell("Computing changes")
        found = opened.propagate(*(names or ()))
    if as_json:
        print_json(found)
    else:
        show.reports(found)


app.command()(run)
app.command()(plan)
app.command("dry-run")(dry_run)
app.command()(promote)
app.add_typer(env_app)
app.command("test")(run_view_tests)
app.command()(watch)
app.command()(ui)
app.command()(page)
app.command()(integrity.check)
app.command()(integrity.log)
app.command()(integrity.revert)
app.command()(trust)
app.command()(lineage)
app.command()(advise)
app.command()(integrity.fsck)
app.add_typer(alter.app)
app.command()(alter.publish)
app.command()(alter.unpublish)
app.command()(housekeeping.optimize)
app.command()(housekeeping.vacuum)
app.command()(housekeeping.housekeeping)


@app.command()
@reporting
def status(
    names: Annotated[list[str] | None, typer.Argument(help="Tables and views. Default: all.")] = None,
    env: EnvOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the lake's tables and views: version, rows, what is stale."""
    with working("Reading the lake", as_json):
        every = locate(lake).open(environment=env).status()
    show.check_names(names or [], every)
    chosen = {name: every[name] for name in names or every}
    if as_json:
        print_json(chosen)
    else:
        show.status(chosen)


@app.command()
@reporting
def explain(
    name: Annotated[str | None, typer.Argument(metavar="VIEW", help="The view.", show_default=False)] = None,
    file: Annotated[
        Path | None, typer.Argument(help="For --html: the file to write. Default: VIEW.html.", show_default=False)
    ] = None,
    rules: Annotated[
        bool,
        typer.Option(
            "--rules",
            help="The incremental rules of a Datalog program, given by its name; without a name, the rules of the calculus.",
        ),
    ] = False,
    algebra: Annotated[bool, typer.Option("--algebra", help="The maintenance expressions as algebra.")] = False,
    sql: Annotated[bool, typer.Option("--sql", help="The maintenance expressions as Spark SQL.")] = False,
    self_only: Annotated[
        bool,
        typer.Option(
            "--self", help="Whether the view, or all, can be maintained without its sources; and what it takes."
        ),
    ] = False,
    form: FormOption = None,
    html: Annotated[bool, typer.Option("--html", help="Write everything, with a drawing, to an HTML file.")] = False,
    mode: ModeOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show how a view is kept and what the next refresh would do: plan, rules, state, costs. Runs nothing."""
    if rules and name is not None:
        text = locate(lake).open().delta_rules(name)
        print_json({"rules": text}) if as_json else out().print(text, markup=False, highlight=False)
        return
    if rules:
        show.rules(as_json)
        return
    if self_only:
        found = locate(lake).open().self_maintenance(*([name] if name else []))
        print_json(found) if as_json else out().print("\n".join(map(str, found)), markup=False, highlight=False)
        return
    if name is None:
        raise typer.BadParameter("give the name of a view, --rules or --self")
    if file is not None and not html:
        raise typer.BadParameter("a file is written with --html only")
    place = locate(lake)
    with working("Planning", as_json):
        explanation = place.open().explain(name, mode=mode or place.mode, form=form)
    if html:
        show.page(explanation, file, as_json)
    elif as_json:
        print_json(explanation.to_dict())
    else:
        show.explanation(explanation, algebra, sql)


@app.command()
@reporting
def changes(
    name: Annotated[str, typer.Argument(help="The table or view.")],
    since: Annotated[int, typer.Option("--since", min=0, help="Only changes after this version of it.")] = 0,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Show updated rows as update_before and update_after, paired by key.")
    ] = False,
    limit: LimitOption = 50,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the change feed of a table or view: every row inserted or deleted, with the version that did it."""
    with working("Reading the feed", as_json):
        rows = locate(lake).open().changes(name, since=since, pairs=pairs)
    _print_rows(rows, limit, as_json)


@app.command()
@reporting
def verify(
    names: NamesArgument = None,
    env: EnvOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Recompute views and compare them with what is stored; fails with the rows that differ."""
    with working("Starting Spark", as_json) as tell:
        opened = locate(lake).open(environment=env)
        verified = names or [name for name, status in opened.status().items() if status.kind == "view"]
        found: dict[str, Verified] = {}
        for name in verified:
            tell(f"Recomputing {name}")
            found |= opened.verify(name)
    exact = [name for name, one in found.items() if one.verdict == "exact"]
    others = {name: one.reason for name, one in found.items() if one.verdict != "exact"}
    if as_json:
        print_json({"verified": exact, "not_comparable": others})
    else:
        out().print(f"[green]exact[/]  {len(exact)} of {len(found)} views equal their queries")
        for name, reason in others.items():
            out().print(f"[yellow]not comparable[/]  {escape(f'{name}: {reason}')}", soft_wrap=True)


@app.command()
@reporting
def sql(
    query: Annotated[str, typer.Argument(help="A query over the lake's tables and views, or a statement that writes.")],
    limit: LimitOption = 50,
    why: Annotated[bool, typer.Option("--why", help="Only say which views answer it, and why others do not.")] = False,
    env: EnvOption = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Query the lake with Spark SQL."""
    with working("Running", as_json):
        opened = locate(lake).open(environment=env)
        answer = opened.answer(query) if why else None
        rows = opened.sql(query) if answer is None else answer.frame
    if answer is None:
        _print_rows(rows, limit, as_json)
    elif as_json:
        print_json(answer.to_dict())
    else:
        out().print(escape(str(answer)), soft_wrap=True)


@app.command()
@reporting
def demo(
    lake: Annotated[
        Path | None, typer.Option("--lake", help="Keep the lake here. Default: a temporary folder.", show_default=False)
    ] = None,
    small: Annotated[
        bool, typer.Option("--small", help="A twentieth of the orders: quicker, but less to see.")
    ] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Build a small shop, change it a few times, and time every refresh against a recompute."""
    from nabla.dev.demo.run import run_demo

    results = run_demo(lake, quiet=as_json, small=small)
    if as_json:
        print_json(results)


@app.command()
@reporting
def papers(
    lake: Annotated[
        Path | None,
        typer.Option("--lake", help="Keep the lakes here. Default: a temporary folder.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run an example of each paper that Nabla implements, and show it beside the paper's own result."""
    from nabla.dev.demo.papers import run_tour

    shown = run_tour(lake, None if as_json else out())
    if as_json:
        print_json(shown)
    if not all(one.agrees for one in shown):
        raise typer.Exit(1)


def _print_rows(rows: DataFrame, limit: int, as_json: bool) -> None:
    """Print rows; one row above the limit shows that there are more."""
    with working("Running", as_json):
        found = rows.limit(limit + 1).collect()
    if as_json:
        print_json(found[:limit])
    else:
        show.rows(rows.columns, found[:limit], more=len(found) > limit)


def main() -> None:
    os.environ["NABLA_PROGRESS"] = "off"  # commands have a display of their own
    app()
