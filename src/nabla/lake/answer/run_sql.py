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
    record_query(context, text)
    if views == "never":
        names_of(context.spark.session).keep_plain(plain)
        return plain
    if views == "only":
        return answer_frame(context, state, plain, text, views, within).frame
    try:
        candidates = candidates_in(context, state)
        if text in candidates.fruitless or not _is_worth_it(candidates, text):
            return plain
        answer = answer_frame(context, state, plain, text, views, within)
        if not answer.views:
            candidates.note_fruitless(text)
        return answer.frame
    except Exception as error:  # whatever is wrong with a view must not keep a query from its tables
        _LOG.warning("the query is run over its tables, since views cannot be looked at: %s", error)
        return plain


def _is_worth_it(candidates: Candidates, text: str) -> bool:
    """Whether views read tables that the text names, and these are so large that reading them takes longer than matching."""
    if not candidates.usable:
        return False
    words = {word.lower() for word in _WORD.findall(text)}
    named = words & candidates.read_by_views
    rows = sum(candidates.rows(name) for name in candidates.state.entries if name.lower() in named)
    return rows >= LARGE
