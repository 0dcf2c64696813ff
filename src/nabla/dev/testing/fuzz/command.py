"""The command line of the fuzzer."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from nabla.dev.testing.fuzz import plans
from nabla.dev.testing.fuzz.budget import Budget
from nabla.dev.testing.fuzz.plan_script import plan_script

DESCRIPTION = """\
Looks for views that are maintained wrongly: makes random tables, views and changes, and compares every view with what
recomputing it gives, as bags. A failing case is made small and written as a Python script that shows the fault.

The interpreter engine checks the rules alone, on hundreds of plans a second and without a JVM. The Spark engine checks
all of Nabla: views as SQL text over a lake, transactions, incremental refreshes, change feeds."""
EPILOG = "Exit status: 0 if everything agreed, 1 if something did not."


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m nabla.dev.testing.fuzz",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--engine", choices=("both", "interpreter", "spark"), default="both", help="what to test (both)")
    made.add_argument("--seconds", type=float, help="how long to go on in all (60, unless a number is given)")
    made.add_argument("--plans", type=int, help="stop the interpreter engine after so many plans")
    made.add_argument("--refreshes", type=int, help="stop the Spark engine after so many refreshes of a view")
    made.add_argument("--views", type=int, default=30, help="views of a lake of the Spark engine (30)")
    made.add_argument("--batches", type=int, default=10, help="times that a lake is changed and refreshed (10)")
    made.add_argument("--seed", type=int, default=0, help="the same seed makes the same cases (0)")
    made.add_argument("--jobs", type=int, help="processes of the interpreter engine (one a core)")
    made.add_argument("--out", type=Path, help="folder for the scripts of failing cases")
    made.add_argument("--json", action="store_true", help="print one line of JSON at the end, and nothing else")
    return made


def main(arguments: list[str] | None = None) -> None:
    asked = parser().parse_args(arguments)
    report = Report(quiet=asked.json, out=asked.out)
    if asked.engine in ("both", "interpreter"):
        fuzz_plans(asked, report)
    if asked.engine in ("both", "spark"):
        fuzz_lakes(asked, report)
    if asked.json:
        sys.stdout.write(json.dumps(report.results) + "\n")
    sys.exit(1 if report.failed else 0)


class Report:
    """Lines on the terminal, scripts in a folder, and the numbers for `--json`."""

    def __init__(self, quiet: bool, out: Path | None) -> None:
        self.quiet = quiet
        self.out = out
        self.results: dict[str, Any] = {}
        self.failed = False
        self._shown = 0.0

    def say(self, text: str) -> None:
        if not self.quiet:
            sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
            sys.stdout.flush()

    def progress(self, text: str) -> None:
        """At most one line in five seconds."""
        if time.monotonic() - self._shown >= 5:
            self._shown = time.monotonic()
            self.say(text)

    def fault(self, name: str, what: str, script: str) -> dict[str, str]:
        self.failed = True
        self.say(f"{name}: {what}")
        if not self.quiet:
            sys.stdout.write(script + "\n")
        said = {"case": name, "what": what, "script": script}
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
            path = self.out / f"{name}.py"
            path.write_text(script, encoding="utf-8")
            said["file"] = str(path)
            self.say(f"written to {path}")
        return said


def fuzz_plans(asked: argparse.Namespace, report: Report) -> None:
    findings = plans.run(
        asked.seed,
        _budget(asked, asked.plans),
        asked.jobs,
        lambda so_far: report.progress(f"interpreter: {_rate(so_far.cases, so_far.seconds, 'plans')}"),
        report.say,
    )
    report.say(f"interpreter: {_rate(findings.cases, findings.seconds, 'plans')}, {len(findings.failing)} failing")
    operators = ", ".join(f"{name} {n}" for name, n in findings.operators.most_common())
    report.say(f"plans by operator: {operators}")
    faults = []
    for found in findings.found:
        small = plans.failure(found.small) or found.what
        faults.append(report.fault(f"plan_{found.number}", small, plan_script(found.small, small)))
    report.results["interpreter"] = {
        "plans": findings.cases,
        "seconds": round(findings.seconds, 2),
        "operators": dict(findings.operators),
        "faults": faults,
    }


def fuzz_lakes(asked: argparse.Namespace, report: Report) -> None:
    from nabla.dev.testing.fuzz import lakes  # the other engine needs no Spark
    from nabla.dev.testing.fuzz.lake_script import lake_script
    from nabla.dev.testing.session import quick_session

    findings = lakes.run(
        quick_session("nabla-fuzz"),
        asked.seed,
        _budget(asked, asked.refreshes),
        lambda so_far: report.progress(
            f"spark: {so_far.lakes} lakes, {so_far.views} views, {_rate(so_far.refreshes, so_far.seconds, 'refreshes')}"
        ),
        asked.views,
        asked.batches,
        report.say,
    )
    report.say(f"spark: {findings.lakes} lakes, {findings.views} views, {len(findings.found)} faults")
    report.say(f"spark: {_rate(findings.refreshes, findings.seconds, 'refreshes')}")
    for title, counts in (
        ("modes", findings.modes),
        ("reasons of full refreshes", findings.reasons),
        ("texts that are no views", findings.refused),
        ("seconds", findings.spent),
    ):
        report.say(f"{title}: " + (", ".join(f"{name} {n:.4g}" for name, n in counts.most_common()) or "none"))
    for reason, sql in findings.examples.values():
        report.say(f"{reason}\n  {sql}")
    faults = []
    for found in findings.found:
        script = lake_script(found.small, found.fault.what, found.fault.view)
        faults.append(report.fault(f"lake_{found.number}_{found.fault.view}", found.fault.what, script))
    numbers = {name: getattr(findings, name) for name in ("lakes", "views", "refreshes", "modes", "reasons", "refused")}
    report.results["spark"] = {**numbers, "seconds": round(findings.seconds, 2), "faults": faults}


def _budget(asked: argparse.Namespace, count: int | None) -> Budget:
    """Both engines share the time."""
    counted = asked.plans is not None or asked.refreshes is not None
    seconds = asked.seconds if asked.seconds is not None else None if counted else 60.0
    if seconds is not None and asked.engine == "both":
        seconds /= 2
    return Budget(seconds, count)


def _rate(count: int, seconds: float, what: str) -> str:
    return f"{count:,} {what} in {seconds:,.0f} s, {count / max(seconds, 0.001):.1f} a second"
