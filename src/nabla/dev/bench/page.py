"""The measured parts of docs/performance.md, made from the measurements that are kept beside it.

In the page a measured part is between `<!-- measured: NAME -->` and `<!-- end -->`; the rest is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from nabla.dev.bench import nested_costs, nested_limits, report, tpcds, tpch
from nabla.dev.bench.by_student import BY_STUDENT
from nabla.dev.bench.findings import findings
from nabla.dev.bench.measure import Measurement
from nabla.dev.bench.nested_costs import Costs
from nabla.dev.bench.nested_run import Operand, Timed
from nabla.dev.bench.plot import draw_curves, draw_limits, draw_right
from nabla.dev.bench.records import Records
from nabla.dev.bench.suite import Suite
from nabla.dev.bench.table24 import TABLE_24
from nabla.errors import NablaError

PAGE = "performance.md"
SHOWN = 0.1
"""The size of change, in percent, for which the page shows every view."""
NOTHING = "Nothing is recorded yet."
_DESIGNS = (("nested", BY_STUDENT), ("table24", TABLE_24))
"""The designs of the university, with the names under which the page has them."""
_PART = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(docs: Path) -> str:
    """The page's text with its measured parts made anew."""
    page = (docs / PAGE).read_text(encoding="utf-8")
    parts = _parts(docs)

    def part(found: re.Match[str]) -> str:
        if found[2] not in parts:
            raise NablaError("NABLA_BENCH", f"nothing is measured under the name {found[2]!r}", place=str(docs / PAGE))
        text = parts[found[2]]
        return f"{found[1]}\n{text}\n\n{found[3]}" if text else found[1] + found[3]

    return _PART.sub(part, page)


def make(docs: Path) -> None:
    """The page and its figures."""
    (docs / PAGE).write_text(fill(docs), encoding="utf-8")
    for suite in (tpch.suite(), tpcds.SUITE):
        if found := _measured(docs, suite):
            draw_curves(suite, found, docs, "incremental", "auto")
    for name, design in _DESIGNS:
        left, right = (nested_limits.curves(_nested(docs), operand, design) for operand in get_args(Operand))
        if left:
            draw_limits(left, design, docs / f"{name}-limits.svg")
        if right:
            draw_right(right, design, docs / f"{name}-right.svg")


def _parts(docs: Path) -> Mapping[str, str]:
    timed = _nested(docs)
    parts = {name: nested_limits.limits(timed, design).markdown() for name, design in _DESIGNS}
    printed = nested_limits.printed(timed, TABLE_24)
    costs = Records(Costs, docs / "measurements/nested_costs.jsonl").all
    parts["table24-figures"] = "\n\n".join(s.markdown() for s in printed) or NOTHING
    parts["table24-costs"] = nested_costs.table(costs).markdown() if costs else NOTHING
    for suite in (tpch.suite(), tpcds.SUITE):
        found = _measured(docs, suite)
        overview = report.overview(report.by_setting(found))
        parts |= {
            f"{suite.name}-overview": overview.markdown() if found else NOTHING,
            f"{suite.name}-views": _views(found),
            f"{suite.name}-together": "\n\n".join(s.markdown() for s in report.together(found, SHOWN)),
            f"{suite.name}-findings": "\n\n".join(s.markdown() for s in findings(found)),
        }
    return parts


def _views(measurements: list[Measurement]) -> str:
    """The views one by one, for the planner's choices after a change of a thousandth."""
    shown = {
        name: ratios
        for name, ratios in report.by_setting(measurements).items()
        if (ratios.worst.asked, ratios.worst.change) == ("auto", SHOWN)
    }
    return "\n\n".join(report.views(name, ratios).markdown() for name, ratios in shown.items())


def _measured(docs: Path, suite: Suite) -> list[Measurement]:
    return Records(Measurement, docs / f"measurements/{suite.name}.jsonl").all


def _nested(docs: Path) -> list[Timed]:
    return Records(Timed, docs / "measurements/nested.jsonl").all
