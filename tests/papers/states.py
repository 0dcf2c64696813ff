"""Databases of sets, for tests: see nabla.dev.testing.paper_states."""

from __future__ import annotations

from nabla.dev.testing.paper_states import (
    Row,
    Table,
    as_sets,
    assert_minimal_pair,
    before_and_after,
    changed_tables,
    column,
    graph,
    inverted,
    random_state,
    rows,
    state,
    table,
    tables_read,
    with_deltas,
)

__all__ = [
    "Row",
    "Table",
    "as_sets",
    "assert_minimal_pair",
    "before_and_after",
    "changed_tables",
    "column",
    "graph",
    "inverted",
    "random_state",
    "rows",
    "state",
    "table",
    "tables_read",
    "with_deltas",
]
