"""`nabla bench`: measures the cost of a refresh against that of recomputing, on this machine in one run."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from nabla.cli.output import out, reporting

if TYPE_CHECKING:
    from nabla.dev.bench.peers import Peer
    from nabla.dev.bench.run import Workload
    from nabla.dev.bench.suite import Suite

app = typer.Typer(
    name="bench", help="Measure refreshes against recomputing, on this machine, in one run.", no_args_is_help=True
)

JsonOption = Annotated[bool, typer.Option("--json", help="End with one line of JSON.")]
LakeFolder = Annotated[Path | None, typer.Option(help="Keep the lake in this folder, and use the one that is there.")]
ResultsOption = Annotated[
    Path | None, typer.Option(help="Add all measurements to this file; tables and figures show all that it has.")
]
ViewsOption = Annotated[str, typer.Option(help="all, or query numbers such as 1,3,6.")]
RoundsOption = Annotated[
    int, typer.Option(min=0, help="Rounds for each size and mode; medians are shown. 0 shows what --results has.")
]
ModesOption = Annotated[str, typer.Option(help="auto, incremental, or both as auto,incremental.")]
DataFolder = Annotated[Path, typer.Option(help="Where generated data is kept.")]
VerifyOption = Annotated[bool, typer.Option("--verify", help="Verify every view after every round.")]
BuildsOption = Annotated[bool, typer.Option("--builds", help="Measure initial builds, too.")]
WarmOption = Annotated[bool, typer.Option(help="Begin with a round that is not measured.")]
PlotFolder = Annotated[
    Path | None, typer.Option(help="Draw cost against the size of the change and of the tables into this folder.")
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something goes wrong.")]


def say(text: str) -> None:
    out().print(f"[{time.strftime('%H:%M:%S')}] {text}", markup=False, highlight=False)
    sys.stdout.flush()


def _listed(text: str, known: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """The words between commas, each of which must be known."""
    words = tuple(part.strip() for part in text.split(","))
    for word in words:
        if word not in known:
            raise typer.BadParameter(f"{word!r} is no {what}: choose from {', '.join(known)}")
    return words


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="nabla-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@app.command()
@reporting
def tpch(
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 1.0,
    change: Annotated[str, typer.Option(help="Changed orders in percent; several as 0.01,0.1,1.")] = "0.1",
    views: ViewsOption = "all",
    rounds: RoundsOption = 3,
    modes: ModesOption = "auto",
    kind: Annotated[
        str, typer.Option(help="Changes: mixed, insert or delete (orders with lines), parties; several with commas.")
    ] = "mixed",
    place: Annotated[Literal["scattered", "recent"], typer.Option(help="Which orders go.")] = "scattered",
    data: DataFolder = Path("bench/data"),
    verify: VerifyOption = False,
    builds: BuildsOption = False,
    against: Annotated[
        str,
        typer.Option(
            help="Peers, on the same changes: duckdb (recomputes and writes), merge (pipelines written by hand with "
            "MERGE), pathway; several with commas."
        ),
    ] = "",
    spellings: Annotated[
        str,
        typer.Option(help="How the year of a date is written: year, extract, date_part; several make several views."),
    ] = "year",
    warm: WarmOption = True,
    lake: LakeFolder = None,
    results: ResultsOption = None,
    plot: PlotFolder = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """TPC-H queries as views: orders and their lines change, each view is refreshed, and recomputed by plain Spark."""
    from nabla.dev.bench import tpch as queries
    from nabla.dev.bench.duckdb_peer import DuckDB
    from nabla.dev.bench.pathway_peer import Pathway
    from nabla.dev.bench.peers import MergePipeline

    peers: dict[str, type[Peer]] = {"duckdb": DuckDB, "merge": MergePipeline, "pathway": Pathway}
    suite = queries.suite(_listed(spellings, get_args(queries.Spelling), "spelling of a year"), place)
    workload = _workload(suite, scale, change, views, rounds, modes, kind, verify, builds, against, peers, warm)
    _measure(suite, workload, data, lake, results, plot, as_json)


@app.command()
@reporting
def tpcds(
    scale: Annotated[float, typer.Option(help="TPC-DS scale factor.")] = 1.0,
    change: Annotated[str, typer.Option(help="Changed rows in percent; several as 0.01,0.1,1.")] = "0.1",
    views: ViewsOption = "all",
    rounds: RoundsOption = 3,
    modes: ModesOption = "auto",
    kind: Annotated[
        str,
        typer.Option(
            help="Changes: facts (sales with their returns, and inventory), sales, returns, inventory, dimensions, "
            "all; several with commas."
        ),
    ] = "facts",
    data: DataFolder = Path("bench/data"),
    verify: VerifyOption = False,
    builds: BuildsOption = False,
    against: Annotated[str, typer.Option(help="Peers, on the same changes: duckdb (recomputes and writes).")] = "",
    warm: WarmOption = True,
    lake: LakeFolder = None,
    results: ResultsOption = None,
    plot: PlotFolder = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """TPC-DS queries as views: facts or dimensions change, each view is refreshed, and recomputed by plain Spark.

    The data and the queries come from DuckDB's extension. The version of DuckDB that has it is installed into the folder of
    generated data on first use.
    """
    from nabla.dev.bench import tpcds as queries
    from nabla.dev.bench.duckdb_peer import DuckDB

    workload = _workload(
        queries.SUITE, scale, change, views, rounds, modes, kind, verify, builds, against, {"duckdb": DuckDB}, warm
    )
    _measure(queries.SUITE, workload, data, lake, results, plot, as_json)


def _workload(
    suite: Suite,
    scale: float,
    change: str,
    views: str,
    rounds: int,
    modes: str,
    kind: str,
    verify: bool,
    builds: bool,
    against: str,
    peers: Mapping[str, type[Peer]],
    warm: bool,
) -> Workload:
    """The workload that the options of a benchmark describe."""
    from nabla.dev.bench.run import Workload, chosen, numbers
    from nabla.planner.steps import Mode

    return Workload(
        scale,
        numbers(change),
        chosen(views, suite.names),
        rounds,
        _listed(modes, get_args(Mode), "mode"),
        _listed(kind, suite.kinds, "kind of change"),
        verify,
        builds,
        tuple(peers[name] for name in _listed(against, tuple(peers), "peer")) if against else (),
        warm,
    )


def _measure(
    suite: Suite,
    workload: Workload,
    data: Path,
    lake: Path | None,
    results: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Run a benchmark and print its report; exit code 1 if a view failed in this run, or was not its query."""
    from nabla.dev.bench import report
    from nabla.dev.bench.measure import Measurement
    from nabla.dev.bench.plot import draw_curves
    from nabla.dev.bench.records import Records
    from nabla.dev.bench.run import run

    failed = False
    with scratch() as folder:
        measured = Records(Measurement, results)
        for one in run(suite, workload, data, lake or folder / suite.name, say) if workload.rounds else ():
            measured.add(one)
            failed = failed or bool(one.problem)
    out().print(report.tables(measured.all), markup=False, highlight=False)
    if plot is not None:
        plot.mkdir(parents=True, exist_ok=True)
        draw_curves(suite, measured.all, plot, workload.modes[0], workload.modes[0])
    if as_json:
        print(report.to_json(measured.all))  # noqa: T201
    if failed:
        raise typer.Exit(1)


@app.command()
@reporting
def nested(
    size: Annotated[int, typer.Option(min=1000, help="Students in the database.")] = 600_000,
    sizes: Annotated[str, typer.Option(help="Sizes of updates, in percent of the rows.")] = "10,20,30,40,50",
    design: Annotated[
        Literal["table24", "by-student"],
        typer.Option(help="The relations: as the paper prints them, or `teach` and `test` kept for each student."),
    ] = "table24",
    views: Annotated[
        str,
        typer.Option(
            help="all, or some of q_s1, q_s2, q_s3, q_jn1, q_jn2, q_jn23; by-student: selection_1, …, join_23."
        ),
    ] = "all",
    rounds: Annotated[
        int, typer.Option(min=0, help="Rounds for each size; medians are shown. 0 shows what --results has.")
    ] = 3,
    operands: Annotated[
        str, typer.Option(help="What is updated: left, right (what joins join), or both.")
    ] = "left,right",
    costs: Annotated[
        Path | None,
        typer.Option(
            help="Measure c_coul, c_cmb, c_inc, c_del and c_ins of section 6.2, too, and add them to this file."
        ),
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Measure all, costs too, in place of what this folder's measurements/ has.")
    ] = None,
    lake: LakeFolder = None,
    results: ResultsOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Verify every view at the end.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the paper's figures 2 and 4 into this folder, as SVG.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Liu and Vincent's experiments on nested views: from which size of an update on does recomputing win?

    The university database of their paper; selections on levels 1, 2 and 3, joins on levels 1, 2, and 2 and 3. Each view is
    maintained (mtn: all keys of the update are there; inc: none is) and recomputed (rec). The maintenance limit is the
    size at which mtn costs as much as rec.
    """
    from nabla.dev.bench import nested_costs, nested_limits, nested_run
    from nabla.dev.bench.by_student import BY_STUDENT
    from nabla.dev.bench.plot import draw_limits, draw_right
    from nabla.dev.bench.records import Records
    from nabla.dev.bench.run import numbers
    from nabla.dev.bench.table24 import TABLE_24

    made = TABLE_24 if design == "table24" else BY_STUDENT
    names = tuple(e.name for e in made.experiments)
    wanted = names if views == "all" else _listed(views, names, "view of this benchmark")
    workload = nested_run.Workload(
        size,
        numbers(sizes),
        made,
        tuple(e for e in made.experiments if e.name in wanted),
        rounds,
        _listed(operands, get_args(nested_run.Operand), "operand"),
        verify,
    )
    if record is not None:
        results, costs = nested_run.clear_measurements(record, made)
    with scratch() as folder:
        timed, items = Records(nested_run.Timed, results), Records(nested_costs.Costs, costs)
        first = nested_run.next_round(one for one in timed.all if one.view in names)
        for one in nested_run.run(workload, lake or folder / "university", say, first) if rounds else ():
            timed.add(one)
        for item in nested_costs.run(workload, lake or folder / "university", say) if rounds and costs else ():
            items.add(item)
    out().print(nested_limits.tables(timed.all, made), markup=False, highlight=False)
    if items.all:
        out().print(nested_costs.table(items.all).text(), markup=False, highlight=False)
    if plot is not None:
        plot.mkdir(parents=True, exist_ok=True)
        if left := nested_limits.curves(timed.all, "left", made):
            draw_limits(left, made, plot / "nested-limits.svg")
        if right := nested_limits.curves(timed.all, "right", made):
            draw_right(right, made, plot / "nested-right.svg")
    if as_json:
        print(nested_limits.limits_json(timed.all, made))  # noqa: T201


@app.command()
@reporting
def small(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Fixed costs: the smallest refresh, and many small views in layers, over one Spark write of ten rows."""
    from nabla.dev.bench.layers import layered_views
    from nabla.dev.bench.smallest import smallest_refresh
    from nabla.dev.bench.tiny_query import tiny_query

    with scratch() as folder:
        tiny = tiny_query(folder)
        say(str(tiny))
        smallest = smallest_refresh(folder)
        say(str(smallest))
        layers = layered_views(folder)
        say(str(layers))
    if as_json:
        print(json.dumps({"tiny": asdict(tiny), "smallest": asdict(smallest), "layers": asdict(layers)}))  # noqa: T201


@app.command()
@reporting
def constraints(
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 1.0,
    change: Annotated[float, typer.Option(help="Changed orders of a transaction, in percent.")] = 0.1,
    rounds: Annotated[int, typer.Option(min=1, help="Transactions; medians are shown.")] = 5,
    data: DataFolder = Path("bench/data"),
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """A foreign key and an assertion over three tables of TPC-H: checked in every transaction, and from scratch."""
    from nabla.dev.bench import constraints as measured

    with scratch() as folder:
        found = measured.run(scale, change, rounds, data, folder, say)
    out().print(measured.table(found), markup=False, highlight=False)
    if as_json:
        print(json.dumps([summary.to_json() for summary in found]))  # noqa: T201


@app.command()
@reporting
def deferral(
    orders: Annotated[int, typer.Option(min=1000, help="Rows of the table that changes.")] = 500_000,
    transactions: Annotated[int, typer.Option(min=1, help="Transactions before each refresh.")] = 10,
    rows: Annotated[int, typer.Option(min=5, help="New rows of a transaction; a fifth as many go.")] = 1_000,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds, each with a refresh; medians are shown.")] = 5,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """The same transactions with a view that is immediate, deferred, or computed ahead: who waits, and for how long?"""
    from nabla.dev.bench.deferral import Load, compare, section

    with scratch() as folder:
        found = compare(Load(orders, transactions, rows, rounds), folder, say)
    out().print(section(found).text(), markup=False, highlight=False)
    if as_json:
        print(json.dumps([outcome.to_json() for outcome in found]))  # noqa: T201


@app.command()
@reporting
def rules(
    edges: Annotated[int, typer.Option(min=1, help="Edges of the graph.")] = 100_000,
    nodes: Annotated[int, typer.Option(min=2, help="Nodes that they are drawn between.")] = 105_000,
    changed: Annotated[int, typer.Option(min=1, help="Edges that come, and as many that go, before a refresh.")] = 100,
    turns: Annotated[int, typer.Option(min=1, help="Changes, one after the other; the median is shown.")] = 2,
    seed: Annotated[int, typer.Option(help="Another seed is another graph.")] = 1,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Transitive closure over a random graph, refreshed and computed from scratch by the same engine."""
    from nabla.dev.bench.closure import Graph, transitive_closure

    with scratch() as folder:
        outcome = transitive_closure(folder, Graph(nodes, edges, changed, seed), turns, say)
    say(str(outcome))
    if as_json:
        print(json.dumps(outcome.to_json()))  # noqa: T201


@app.command()
@reporting
def page(
    docs: Annotated[Path, typer.Argument(help="The folder with performance.md and measurements/.")] = Path("docs"),
    debug: DebugOption = False,
) -> None:
    """Write the measured parts of docs/performance.md and its figures from what docs/measurements has."""
    from nabla.dev.bench import page as made

    made.make(docs)
