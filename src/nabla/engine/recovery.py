"""The rows of a table, read from a view that has all of them: for a view that is maintained without its sources.

A full outer join of tables with keys has each of their rows, with its partners or with NULLs beside it. The rows of a table
before a change are those of the view in which they are not missing, each once; the change gives the rows after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from nabla.algebra.expressions import quote
from nabla.algebra.nodes import At
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.bags import consolidate, repeat, weigh
from nabla.storage.bags import N
from nabla.storage.table import Snapshot

if TYPE_CHECKING:
    from nabla.engine.relations import Source
    from nabla.engine.spark.frames import Workspace


@dataclass(frozen=True, eq=False)
class Recovery:
    """A stored view, the places of a table's fields in it, and the place of a column that is NULL where it has no row of the
    table."""

    view: Snapshot
    places: Mapping[str, int]
    present: int

    @property
    def key(self) -> Hashable:
        return self.view.folder, self.view.version, tuple(self.places.items())

    def frame(self, workspace: Workspace, source: Source, at: At) -> DataFrame:
        """The rows of the table, of which only the fields are known that the view shows."""
        before = self._before(workspace)
        if at is At.OLD:
            return before
        names = [quote(field) for field in self.places]
        change = source.frame(workspace, At.DELTA).selectExpr(*names, N)
        # The view may leave out rows of the table. The deletion of one meets nothing, and is left out, too.
        rows = consolidate(weigh(before, 1).unionAll(change), list(self.places)).where(f"{N} > 0")
        return repeat(rows, *names)

    def _before(self, workspace: Workspace) -> DataFrame:
        columns = [f"c{i}" for i in range(len(self.view.schema.names))]
        rows = snapshot_frame(workspace, self.view, columns).where(f"c{self.present} IS NOT NULL")
        found = rows.selectExpr(*(f"c{place} AS {quote(field)}" for field, place in self.places.items()))
        every = consolidate(weigh(found, 1), list(self.places))
        return every.select(*map(quote, self.places))
