"""The part of a lake's interface that changes rows: transactions, what they would do, their undo, and sinks for streams."""

from __future__ import annotations

from collections.abc import Sequence

from nabla._arguments import check_arguments
from nabla.lake.insight import Insight
from nabla.lake.reports import RevertReport
from nabla.lake.streams.sink import Envelope, Mode, Sink, make_sink
from nabla.lake.write import preview, revert
from nabla.lake.write.preview import Preview
from nabla.lake.write.transaction import Transaction


@check_arguments
class Writing(Insight):
    """How rows come and go."""

    def transaction(self) -> Transaction:
        """Changes of one or more tables that become visible together: `with lake.transaction() as tx: …`."""
        return Transaction(self._context)

    def sink(
        self,
        table: str,
        mode: Mode | None = None,
        envelope: Envelope | None = None,
        delete_when: str | None = None,
        order_by: str | Sequence[str] | None = None,
        query: str | None = None,
    ) -> Sink:
        """A function for `foreachBatch` that brings each batch of a stream into a table, exactly once: the lake's commit has
        the ids of the query and of the batch.

        It appends rows, or with `mode="upsert"` puts them in place by the table's key. `envelope="debezium"` and "delta" say
        that rows are events of Debezium or of a change data feed, in which the last event for a key counts. Other events have
        the condition `delete_when`, and `order_by` to tell the last one. `query` names a stream that has no id of Spark's.
        """
        return make_sink(self._context, table, mode, envelope, delete_when, order_by, query)

    def preview(self, transaction: Transaction) -> Preview:
        """The minimal change of every table, view and constraint that a transaction would change, were it committed now."""
        return preview.preview(self._context, transaction)

    def revert(self, version: int) -> RevertReport:
        """Give tables, views and constraints the content back that they had at a version of the lake (see `version`).

        Objects that were made since then stay, and follow. The revert is a commit: feeds tell it, and it can be reverted.
        """
        return revert.revert(self._context, version)
