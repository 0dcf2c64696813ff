"""The rounds of a recursive group on Spark: each query of a round runs once, and its rows are held for the next.

Small results are held on the driver and handed back as small files; large ones are written by Spark and stay there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.rewrite import rewritten
from nabla.datalog.fixpoint import Fixpoint
from nabla.datalog.recursion import Group
from nabla.engine import types
from nabla.engine.execute import Execution
from nabla.engine.frames import Workspace, read_parquet
from nabla.engine.results import Result, Rows
from nabla.storage.bags import N

_NUMBERS = count()


@dataclass(frozen=True, eq=False)
class Held:
    """Rows that were computed, in one or several pieces. `fields` are the names under which queries read the columns."""

    number: int
    fields: tuple[str, ...]
    pieces: tuple[Rows, ...]

    @property
    def table(self) -> pa.Table | None:
        """All rows, if all are on the driver."""
        tables = [piece.table for piece in self.pieces if piece.table is not None]
        return pa.concat_tables(tables) if len(tables) == len(self.pieces) else None

    def frame(self, workspace: Workspace) -> DataFrame:
        if (table := self.table) is not None:
            return workspace.hold(table, self.pieces[0].schema)
        written = [file for piece in self.pieces if piece.table is None for file in piece.files()]
        frame = read_parquet(workspace.session, written, self.pieces[0].schema)
        for piece in self.pieces:
            if piece.table is not None:
                frame = frame.unionAll(piece.frame(workspace))
        return frame


class Rounds:
    """The backend of the fixpoint loop: `execution` knows the tables and stored predicates that queries read."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    def evaluate(self, queries: Mapping[str, Node], made: Mapping[str, Held]) -> dict[str, Held]:
        return {name: self._evaluated(node, made) for name, node in queries.items()}

    def size(self, relation: Held) -> int:
        return sum(
            piece.table.num_rows
            if piece.table is not None
            else sum(pq.read_metadata(f).num_rows for f in piece.files())
            for piece in relation.pieces
        )

    def extended(self, relation: Held, more: Held) -> Held:
        return Held(next(_NUMBERS), relation.fields, relation.pieces + more.pieces)

    def signed(self, inserted: Held | None, deleted: Held | None, schema: StructType) -> Rows:
        """A change of a view with that schema, with weights, from what came and what went."""
        held = [(h, n) for h, n in ((inserted, 1), (deleted, -1)) if h is not None]
        tables = [(h.table, n) for h, n in held]
        if all(table is not None for table, _ in tables):
            weighed = [
                table.append_column(pa.field(N, pa.int64()), pa.repeat(pa.scalar(n, pa.int64()), table.num_rows))
                for table, n in tables
                if table is not None
            ]
            return self.execution.signed_rows(schema, table=pa.concat_tables(weighed))
        frames = [h.frame(self.execution.workspace).selectExpr("*", f"{n}L AS {N}") for h, n in held]
        frame = frames[0] if len(frames) == 1 else frames[0].unionAll(frames[1])
        return self.execution.signed_rows(schema, frame=frame)

    def whole(self, relation: Held, schema: StructType) -> Rows:
        """All rows of a view with that schema."""
        if (table := relation.table) is not None:
            return Rows(schema, table=types.conform(table, schema))
        return self.execution.written(relation.frame(self.execution.workspace).toDF(*schema.names), schema)

    def _evaluated(self, node: Node, made: Mapping[str, Held]) -> Held:
        rows = self.execution.rows_of(self._reading(node, made))
        return Held(next(_NUMBERS), tuple(c.label for c in node.columns), (rows,))

    def _reading(self, node: Node, made: Mapping[str, Held]) -> Node:
        """The query over what is held: a name of a round's relation means another one in the next round."""
        return rewritten(node, lambda part: self._scan(part, made) if isinstance(part, Scan) else part)

    def _scan(self, scan: Scan, made: Mapping[str, Held]) -> Scan:
        held = made.get(scan.table)
        if held is None:
            return scan
        name = f"@{scan.table}~{held.number}"
        self.execution.hold(name, held.frame, held.table)
        fields = tuple(f"c{held.fields.index(f)}" for f in scan.fields)
        return replace(scan, table=name, at=At.NEW, fields=fields)


def run_group(group: Group, schemas: Mapping[str, StructType], execution: Execution) -> dict[str, Result]:
    """The change of every predicate of a recursive group, or all of them anew, as the plan says."""
    rounds = Rounds(execution)
    loop = Fixpoint(group, rounds)
    if execution.plan.mode == "full":
        rows = loop.evaluate().rows
        return {name: Result(whole=rounds.whole(rows[name], schema)) for name, schema in schemas.items()}
    changed = loop.maintain(execution.plan.changed)
    results = {name: Result() for name in schemas}
    for name in changed.inserted.keys() | changed.deleted.keys():
        change = rounds.signed(changed.inserted.get(name), changed.deleted.get(name), schemas[name])
        results[name] = Result(change=change)
    return results
