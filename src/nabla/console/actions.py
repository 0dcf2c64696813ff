"""What a console does when it is asked to: refresh, verify, answer a query. Each needs Spark, which starts with the first."""

from __future__ import annotations

import threading
from typing import Any

from nabla.console.cells import cell
from nabla.errors import NablaError
from nabla.frontends.spark_sql.code import find_code
from nabla.lake.answer.run_sql import run_sql
from nabla.lake.context import LakeContext
from nabla.lake.refresh.refresh import refresh_views
from nabla.lake.refresh.verify import verify_views

SHOWN_ROWS = 500
LONGEST_QUERY = 20_000

_ONE_AT_A_TIME = threading.Lock()


def refresh(context: LakeContext, names: tuple[str, ...]) -> dict[str, Any]:
    """Bring views up to date, all or the given ones. One at a time: a second click waits for the first."""
    with _ONE_AT_A_TIME:
        reports = refresh_views(context, names, "auto", None)
    return {"reports": [_brief(report.to_dict()) for report in reports.values()]}


def verify(context: LakeContext, names: tuple[str, ...]) -> dict[str, Any]:
    """Compare views with their queries."""
    with _ONE_AT_A_TIME:
        found = verify_views(context, names)
    return {"verified": [one.to_dict() for one in found.values()]}


def query(context: LakeContext, text: str) -> dict[str, Any]:
    """The first rows of a query over the lake's tables and views. Anything that is more than a query is refused before Spark
    sees it: statements that write, files, programs and Java."""
    if not text.strip() or len(text) > LONGEST_QUERY:
        raise NablaError(
            "NABLA_ARGUMENT", "there is no query, or a very long one", place="query", remedy="Write another."
        )
    session = context.spark.named_session
    if (found := find_code(session, text)) is not None:
        raise NablaError(
            "NABLA_NOT_A_QUERY",
            f"the console runs queries over the lake's tables and views, and this has {found}",
            place="query",
            remedy="Use `nabla sql` for anything else.",
        )
    with context.translating("query"):
        frame = run_sql(context, text, "auto", None).limit(SHOWN_ROWS + 1)
        rows = frame.collect()
    return {
        "columns": [{"name": field.name, "type": field.dataType.simpleString()} for field in frame.schema.fields],
        "rows": [[cell(value) for value in row] for row in rows[:SHOWN_ROWS]],
        "more": len(rows) > SHOWN_ROWS,
    }


def _brief(report: dict[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("name", "mode", "reason", "inserted", "deleted", "seconds")}
