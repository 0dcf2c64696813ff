"""`lake.accelerate`: Spark's own queries over the lake's names are answered from views, whoever asks them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from nabla.engine.spark.session import check_session, has_ended, session_ended
from nabla.frontends.spark_sql.read_query import NotReadable
from nabla.frontends.spark_sql.session_names import ASK_OF_PARTS, names_of
from nabla.lake.answer.answer import answer_now
from nabla.lake.context import LakeContext
from nabla.lake.spark import NamedSession
from nabla.storage.catalog import LakeState

_LOG = logging.getLogger("nabla")


def accelerate(context: LakeContext, spark: SparkSession | None, on: bool) -> None:
    """Let a session, or the lake's own, answer queries over the lake's names from views; or no longer."""
    if spark is not None and has_ended(check_session(spark)):
        raise session_ended()
    named = context.spark.show_names_in(spark)
    answering = _Answering(context, named) if on else None
    names_of(named.home.session).answer_with(context.path, answering)


class _Answering:
    """Answers queries of one session from the views that reflect the current versions. What views lack is not computed: that
    would start jobs while Spark plans a query."""

    def __init__(self, context: LakeContext, named: NamedSession) -> None:
        self._context = context
        self._named = named

    def __call__(self, plain: DataFrame, marks: Mapping[str, str]) -> DataFrame | str | None:
        try:
            state = self._context.log.state()
            if not self._reads_current(state, marks):
                return None
            answer = answer_now(self._context, state, plain, self._named.home)
            # Somebody may have written to a registered table in the meantime.
            return answer.frame if answer.views and self._reads_current(state, marks) else None
        except NotReadable:
            return ASK_OF_PARTS
        except Exception as error:  # whatever is wrong with a view must not keep a query from its tables
            _LOG.warning("a query is run over its tables, since views cannot be looked at: %s", error)
            return None

    def _reads_current(self, state: LakeState, marks: Mapping[str, str]) -> bool:
        """Whether a frame reads what the state has: it goes on reading what it was made over, whatever is committed since."""
        return self._named.tables.marks(state, marks.keys()) == marks
