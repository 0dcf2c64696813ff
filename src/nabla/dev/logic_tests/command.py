"""The command line of the logic tests."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from nabla.dev.logic_tests import archive, records
from nabla.dev.logic_tests.findings import Findings
from nabla.dev.logic_tests.run import run
from nabla.dev.testing.session import quick_session
from nabla.storage import machine

DESCRIPTION = """\
Runs SQLite's logic tests with every query as a view. The tables of a test begin with half of its rows and some others, views
are made, and changes lead to the rows of the test, each followed by a refresh in mode "incremental". Every view must equal what
Spark gives for its query, after every refresh, and its feed must be the minimal change. At the end the answers of the test
files are compared, too: Spark does not agree with all of them, since SQLite divides integers.

Tests of all kinds take turns. Runs with the seeds 0, 1, 2 and so on, and else the same options, together are one long run.

The test files are fetched once, by Spark's resolver of packages, and kept in a cache. Files of lakes are not synced, because no
power cut is tested."""
EPILOG = "Exit status: 0 if every view was exact, 1 if one was not."
PATTERN = r"select[1-4]$|random/|index/(between|commute|in|orderby|orderby_nosort|random)/"
_EVERY = 11
"""Queries that follow each other are much alike: of a test, one in so many is taken."""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m nabla.dev.logic_tests",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--queries", type=int, default=300, help="how many queries in all (300)")
    made.add_argument("--views", type=int, default=50, help="queries of one test, which share a lake (50)")
    made.add_argument("--batches", type=int, default=2, help="times that a lake is changed and refreshed (2)")
    made.add_argument("--tests", default=PATTERN, help="a regular expression for the names of tests")
    made.add_argument("--seed", type=int, default=0, help="another seed takes other tests and other queries (0)")
    made.add_argument("--cache", type=Path, default=archive.default_cache(), help="where the test files are kept")
    made.add_argument("--json", type=Path, help="a file that the findings are added to")
    return made


def main(arguments: list[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    spark = quick_session("nabla-logic-tests")
    findings = Findings()
    with machine.use(machine.Machine(syncs=False)):
        run(spark, _tests(archive.fetch(spark, asked.cache), asked), asked.batches, findings, _say)
    for line in findings.lines():
        _say(line)
    if asked.json:
        total = Findings.load(asked.json) if asked.json.exists() else Findings()
        total.add(findings)
        total.save(asked.json)
        _say(f"in {asked.json}: {total}")
    sys.exit(1 if findings.wrong else 0)


def _tests(files: archive.Archive, asked: argparse.Namespace) -> Iterator[records.LogicTest]:
    """Some queries of many tests: those of one test are much alike."""
    lakes = -(-asked.queries // asked.views)
    left = asked.queries
    for name, turn in choose(files.names(asked.tests), asked.seed * lakes, lakes):
        test = records.read(name, files.lines(name), every=_EVERY, first=turn, most=min(asked.views, left))
        left -= len(test.queries)
        if test.queries:
            yield test


def choose(names: list[str], start: int, count: int) -> Iterator[tuple[str, int]]:
    """Names of tests, each with a number that tells its turns apart. Kinds of tests take turns, however many each has."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault("/".join(re.split(r"/\d+/|/slt", name)[:1]), []).append(name)
    groups = list(kinds.values())
    for lake in range(start, start + count):
        turn, group = lake // len(groups), groups[lake % len(groups)]
        yield group[turn % len(group)], turn


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()
