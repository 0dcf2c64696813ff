"""`nabla test`: run the tests of a project's views."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from nabla.cli.locate import is_lake, locate
from nabla.cli.options import DebugOption, JsonOption
from nabla.cli.output import out, print_json, reporting, working

if TYPE_CHECKING:
    from nabla.cli.view_tests.run import Outcome

STYLES = {"passed": "green", "failed": "red", "error": "red"}


@reporting
def run_view_tests(
    folder: Annotated[
        Path | None,
        typer.Argument(help="The folder of the tests. Default: `tests` in the project.", show_default=False),
    ] = None,
    keyword: Annotated[
        str | None, typer.Option("-k", help="Only tests whose file, name or view contains this.", show_default=False)
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write a report in JUnit's XML to this file.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Make the same random batches as the run that printed it.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run the tests of a project's views: expected rows for given rows, at once and in random batches of changes."""
    from nabla.cli.view_tests.junit import write_junit
    from nabla.cli.view_tests.project import read_views
    from nabla.cli.view_tests.read import malformed, read_tests
    from nabla.cli.view_tests.run import Runner
    from nabla.engine.spark.session import build_session
    from nabla.frontends.pipelines.project import load_project

    place = locate(None)
    described = place.described()
    root = described.folder
    home = (root / "tests" if folder is None else folder).resolve()
    tests = read_tests(home, root) if home.is_dir() else []
    if not tests:
        raise malformed("there are no tests", str(home), "Write some into `tests/NAME.yml`.")
    wanted = [test for test in tests if keyword is None or _matches(test.place, test.name, test.expect, keyword)]
    seed = random.randrange(1_000_000) if seed is None else seed
    with working("Starting Spark", as_json) as tell, tempfile.TemporaryDirectory() as scratch:
        session = place.session() or build_session("nabla")
        tell("Reading the project")
        project = load_project(described, session)
        views = read_views(project, place.lake if is_lake(place.lake) else None, tests, Path(scratch) / "empty", tell)
        runner = Runner(views, Path(scratch), seed, tell)
        runner.check(tests)
        outcomes = [runner.run(test) for test in wanted]
    if junit is not None:
        write_junit(junit, outcomes, root)
    if as_json:
        print_json({"seed": seed, "tests": [_to_dict(outcome) for outcome in outcomes]})
    else:
        _show(outcomes, len(tests) - len(wanted), seed)
    if any(outcome.verdict != "passed" for outcome in outcomes):
        raise typer.Exit(1)


def _matches(place: str, name: str, views: Iterable[str], keyword: str) -> bool:
    return keyword.lower() in " ".join([place, name, *views]).lower()


def _to_dict(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.test.name,
        "place": outcome.test.place,
        "verdict": outcome.verdict,
        "seconds": outcome.seconds,
        "message": outcome.message,
        "differences": [
            {
                "view": one.view,
                "columns": one.headings,
                "missing": [{"row": row, "copies": copies} for row, copies in one.missing],
                "unexpected": [{"row": row, "copies": copies} for row, copies in one.unexpected],
            }
            for one in outcome.differences
        ],
    }


def _show(outcomes: Sequence[Outcome], left_out: int, seed: int) -> None:
    console = out()
    for outcome in outcomes:
        style = STYLES[outcome.verdict]
        console.print(
            f"[{style}]{outcome.verdict}[/]  {escape(outcome.test.name)}  [dim]{outcome.seconds:.2f} s[/]",
            soft_wrap=True,
        )
        if outcome.message:
            console.print(f"        [dim]{escape(outcome.test.place)}[/]", soft_wrap=True)
            for line in outcome.message.splitlines():
                console.print(f"        {escape(line)}", soft_wrap=True)
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    said = [f"{n} {verdict}" for verdict, n in verdicts.items()] + [f"{left_out} left out"] * bool(left_out)
    console.print(f"{', '.join(said) or 'no tests'}; seed {seed}")
