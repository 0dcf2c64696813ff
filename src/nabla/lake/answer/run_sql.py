"""`lake.sql`: the plain query, or the answer from views where the tables are large enough for that to pay."""

from __future__ import annotations

import logging
import re

from pyspark.sql import DataFrame

from nabla.frontends.spark_sql.session_names import names_of
from nabla.lake.advise.workload import record_query
from nabla.lake.answer.answer import answer_frame, check_views, plain_frame
from nabla.lake.answer.candidates import Candidates, candidates_in
from nabla.lake.context import LakeContext

_LOG = logging.getLogger("nabla")
LARGE = 1_000_000
"""Rows of tables from which on a query takes so long that 30 ms, which it takes to look for views, are not noticed."""
_WORD = re.compile(r"\w+")


def run_sql(context: LakeContext, text: str, views: str, fresh_within: str | None) -> DataFrame:
    """Spark SQL over the lake's tables and views, answered from views where `views` allows it."""
    within = check_views(views, fresh_within)
    state = context.log.state()
    plain = plain_frame(context, text)
    if views == "never":
        names_of(context.spark.session).keep_plain(plain)
        record_query(context, text)
        return plain
    if views == "only":
        answer = answer_frame(context, state, plain, text, views, within)
        record_query(context, text, answer.estimates.rows, answer.views)
        return answer.frame
    rows, read = 0.0, tuple[str, ...]()
    try:
        candidates = candidates_in(context, state)
        rows = _rows_of_tables(candidates, text)
        if rows < LARGE or text in candidates.fruitless:
            return plain
        answer = answer_frame(context, state, plain, text, views, within)
        rows, read = answer.estimates.rows, answer.views
        if not read:
            candidates.note_fruitless(text)
        return answer.frame
    except Exception as error:  # whatever is wrong with a view must not keep a query from its tables
        _LOG.warning("the query is run over its tables, since views cannot be looked at: %s", error)
        return plain
    finally:
        record_query(context, text, rows, read)


def _rows_of_tables(candidates: Candidates, text: str) -> int:
    """The rows of the tables that a text names and that views read: only large ones take longer to read than views to match."""
    if not candidates.usable:
        return 0
    words = {word.lower() for word in _WORD.findall(text)}
    named = words & candidates.read_by_views
    return sum(candidates.rows(name) for name in candidates.state.entries if name.lower() in named)
