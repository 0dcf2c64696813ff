"""`python -m nabla.dev.testing.matrix`."""

from __future__ import annotations

import argparse
import sys
import time

from nabla.dev.testing.matrix.columns import KINDS
from nabla.dev.testing.matrix.run import run
from nabla.dev.testing.session import quick_session

DESCRIPTION = """\
Makes views with every aggregate, function, key, join and set operation over every type of Spark, with NULLs and with the
extremes of each type, changes their tables, refreshes them from the change, and compares them with what Spark answers.
Views that Spark itself refuses are counted and left out."""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m nabla.dev.testing.matrix", description=DESCRIPTION)
    parser.add_argument("--kinds", help=f"only these, with commas between them: {', '.join(k.name for k in KINDS)}")
    parser.add_argument("--shapes", help="only views whose names have one of these, with commas between them, in them")
    parser.add_argument(
        "--no-functions", action="store_true", help="leave out the views that call all of Spark's functions"
    )
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same rows and changes (0)")
    asked = parser.parse_args(arguments)
    kinds = [kind for kind in KINDS if not asked.kinds or kind.name in asked.kinds.split(",")]
    parts = asked.shapes.split(",") if asked.shapes else [""]
    spark = quick_session("nabla-matrix")
    found = run(spark, kinds, lambda name: any(p in name for p in parts), asked.seed, not asked.no_functions, _say)
    _say(f"{found.views} views, {found.refreshes} refreshes, {len(found.faults)} faults")
    for title, counts in (("modes", found.modes), ("reasons", found.reasons), ("refused by Spark", found.refused)):
        _say(f"{title}: " + (", ".join(f"{name} {n}" for name, n in counts.most_common()) or "none"))
    sys.exit(1 if found.faults else 0)


def _say(text: str) -> None:
    sys.stdout.write(f"[{time.strftime('%H:%M:%S')}] {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
