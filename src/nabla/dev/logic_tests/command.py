"""The command line of the logic tests."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nabla.dev.logic_tests import archive, records
from nabla.dev.logic_tests.run import Findings, run
from nabla.dev.testing.session import quick_session

DESCRIPTION = """\
Runs SQLite's logic tests with every query as a view. The tables of a test begin with half of its rows and some others, views
are made, and changes lead to the rows of the test, each followed by a refresh in mode "incremental". Every view must equal what
Spark gives for its query, after every refresh, and its feed must be the minimal change. At the end the answers of the test
files are compared, too: Spark does not agree with all of them, since SQLite divides integers.

The test files are fetched once, by Spark's resolver of packages, and kept in a cache."""
EPILOG = "Exit status: 0 if every view was exact, 1 if one was not."
PATTERN = r"select[1-4]$|random/|index/(between|commute|in|orderby|random)/"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m nabla.dev.logic_tests",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--queries", type=int, default=300, help="how many queries in all (300)")
    made.add_argument("--views", type=int, default=100, help="queries of one test, which share a lake (100)")
    made.add_argument("--batches", type=int, default=2, help="times that a lake is changed and refreshed (2)")
    made.add_argument("--tests", default=PATTERN, help="a regular expression for the names of tests")
    made.add_argument("--seed", type=int, default=0, help="another seed takes other tests and other queries (0)")
    made.add_argument("--cache", type=Path, default=archive.default_cache(), help="where the test files are kept")
    made.add_argument("--json", type=Path, help="a file for the findings")
    return made


def main(arguments: list[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    spark = quick_session("nabla-logic-tests")
    findings = Findings()
    begun = time.monotonic()
    run(spark, _tests(archive.fetch(spark, asked.cache), asked), asked.batches, findings, _say)
    _report(findings, time.monotonic() - begun)
    if asked.json:
        asked.json.write_text(json.dumps(vars(findings), indent=1), encoding="utf-8")
    sys.exit(1 if findings.wrong else 0)


def _tests(files: archive.Archive, asked: argparse.Namespace) -> Iterator[records.LogicTest]:
    """Some queries of many tests: those of one test are much alike."""
    names = files.names(asked.tests)
    wanted = -(-asked.queries // asked.views)
    step = max(1, len(names) // wanted)
    chosen = [names[(asked.seed + i * step) % len(names)] for i in range(wanted)]
    left = asked.queries
    for name in chosen:
        test = records.read(name, files.lines(name), every=7 + asked.seed % 5, most=min(asked.views, left))
        left -= len(test.queries)
        if test.queries:
            yield test


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


def _report(findings: Findings, seconds: float) -> None:
    _say(f"{findings.queries:,} queries, {findings.views:,} views in {seconds:,.0f} s; {len(findings.wrong)} not exact")
    _say(f"answers: {findings.answered:,} as in the tests, {findings.differing:,} as in Spark only")
    for title, counts in (
        ("refreshes", findings.modes),
        ("no views", findings.refused),
        ("recomputed because of", findings.reasons),
        ("seconds", findings.seconds),
    ):
        _say(f"{title}: " + (", ".join(f"{name} {n:,.4g}" for name, n in counts.most_common()) or "none"))
    _say(f"{findings.incremental:.2%} of the views were never recomputed")
