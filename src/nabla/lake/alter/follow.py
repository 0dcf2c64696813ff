"""Views and constraints whose source gets other columns: their stored definitions, with the same meaning as before.

In the algebra a scan names the columns that it reads, so that nothing else of a table matters. The text of a query may depend
on columns that it does not name (`SELECT *`, NATURAL JOIN, a name that only one table had): it goes on reading the table as
it was, by a common table expression of its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nabla.algebra.expressions import quote
from nabla.algebra.nodes import Node, Opaque, Scan
from nabla.algebra.traverse import map_nodes
from nabla.constraints import foreign_key, key
from nabla.errors import NablaError
from nabla.lake.alter.alteration import SchemaChange
from nabla.lake.objects.graph import is_derived, sources_of
from nabla.lake.objects.view import View
from nabla.lake.write.conditions import mentioned_in
from nabla.storage.catalog import Entry, LakeState

_COUNT = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)
_ANY_COLUMN = re.compile(r"\*|\|>|\b(natural|table|pivot|unpivot)\b|^\W*from\b", re.IGNORECASE)
"""Signs of a query that may read columns which it does not name."""
KEPT = "NABLA_COLUMNS_KEPT"
"""The code of the note that a view with `SELECT *` has left a new column out."""


def renamed(columns: Iterable[str], change: SchemaChange) -> tuple[str, ...]:
    """Columns of a table under the names that they have after the change."""
    return tuple(change.renamed.get(name, name) for name in columns)


def readers(state: LakeState, name: str) -> list[Entry]:
    """The views and constraints that read an object, or whose text names it."""
    derived = [entry for entry in state.entries.values() if is_derived(entry)]
    return [e for e in derived if name in sources_of(e) or name in mentioned_in(e.definition.get("sql") or "", state)]


def columns_read(view: View, source: str) -> frozenset[str] | None:
    """The columns that a view reads of a source; None if nobody knows, because there is no algebra for it, or if it counts
    columns by their places, as rules do."""
    if source in view.sources and (view.rules or view.denied):
        return None
    found: set[str] = set()
    for node in view.plan.walk():
        if isinstance(node, Scan) and node.table == source:
            found |= set(node.fields)
        elif isinstance(node, Opaque) and source in node.tables:
            return None
    return frozenset(found)


def is_read(view: View, source: str, column: str) -> bool:
    """Whether the content of a view depends on a column of a source, as far as anybody can tell."""
    known = columns_read(view, source)
    if known is not None:
        return column in known
    named = view.sql is None or bool(view.rules or view.denied)
    return named or reads_any_column(view.sql or "") or _names(view.sql or "", column)


def reads_any_column(sql: str) -> bool:
    """Whether a query may read columns that it does not name."""
    return _ANY_COLUMN.search(_COUNT.sub("count(1)", sql)) is not None


def _names(sql: str, column: str) -> bool:
    return column.casefold() in sql.casefold()


def refuse_loss(view: View, change: SchemaChange) -> None:
    """NABLA_COLUMN_IN_USE where a view reads a column that goes, or reads by their places columns that change."""
    placed = bool((view.rules or view.denied) and change.name in view.sources)
    touched = (*change.dropped, *(change.renamed if placed else ()), *(change.widened if placed else ()))
    lost = next((column for column in touched if is_read(view, change.name, column)), None)
    if lost is not None and not (view.follow and view.sql is not None and _star(view.sql)):
        raise column_in_use(view, change, lost)


def column_in_use(view: View, change: SchemaChange, lost: str) -> NablaError:
    """The error for a column that a view reads, and that is to go, or to change in a way that the view cannot follow."""
    placed = bool((view.rules or view.denied) and change.name in view.sources)
    kind = "constraint" if view.on_violation else "view"
    remedy = f"Take the column out of it with alter_view, or drop the {kind} first."
    if placed:
        remedy = "Rules read columns by their places: drop the rules, and create them again afterwards."
    return NablaError(
        "NABLA_COLUMN_IN_USE",
        f'column "{lost}" of "{change.name}" is read by {kind} "{view.name}"',
        place=f'"{change.name}"',
        remedy=remedy,
    )


def follow(view: View, change: SchemaChange, keys: Mapping[str, str]) -> View:
    """The definition of a view after the change of a source's columns, with the same meaning. `keys` has new texts of
    constraints that were made from declared keys."""
    refuse_loss(view, change)
    sql = _new_text(view, change, keys)
    notes = view.notes
    if change.added and view.sql is not None and change.name in view.sources and _star(view.sql):
        left_out = f"{change.name} has got {', '.join(change.added)}: SELECT * keeps the columns that it had"
        notes = (*notes, f"{KEPT}: {left_out}")
    relies_on = tuple((t, renamed(k, change) if t == change.name else k) for t, k in view.relies_on)
    return replace(view, plan=_new_plan(view.plan, change, sql), sql=sql, notes=notes, relies_on=relies_on)


def _star(sql: str) -> bool:
    return "*" in _COUNT.sub("", sql)


def _new_plan(plan: Node, change: SchemaChange, sql: str | None) -> Node:
    def over_new(node: Node) -> Node:
        if isinstance(node, Scan) and node.table == change.name:
            return replace(node, fields=renamed(node.fields, change))
        if isinstance(node, Opaque) and sql is not None and change.name in node.tables:
            return replace(node, sql=sql)
        return node

    return map_nodes(plan, over_new)


def _new_text(view: View, change: SchemaChange, keys: Mapping[str, str]) -> str | None:
    if view.sql is None or view.sql in keys:
        return keys.get(view.sql or "")
    touched = (*change.added, *change.dropped, *change.renamed, *change.renamed.values())
    if not touched or not (reads_any_column(view.sql) or any(_names(view.sql, name) for name in touched)):
        return view.sql
    return as_before(view.sql, change)


def as_before(sql: str, change: SchemaChange) -> str:
    """The query over a table as it was before the change."""
    columns = ", ".join(_column_as_before(change, name, kind) for name, kind in change.before.items())
    table = quote(change.name)
    inner = f"SELECT * FROM ({sql})" if re.match(r"\W*(with|from)\b", sql, re.IGNORECASE) else sql
    return f"WITH {table} AS (SELECT {columns} FROM {table}) {inner}"


def _column_as_before(change: SchemaChange, name: str, kind: str) -> str:
    if name in change.dropped:
        return f"CAST(NULL AS {kind}) AS {quote(name)}"
    new = change.renamed.get(name, name)
    return quote(name) if new == name else f"{quote(new)} AS {quote(name)}"


def new_key_texts(entry: Entry, change: SchemaChange, state: LakeState) -> dict[str, str]:
    """The texts of constraints that were made from keys and foreign keys of the lake, by the texts that they had."""
    found: dict[str, str] = {}
    new = change.renamed
    for other in state.entries.values():
        if other.kind != "table":
            continue
        columns = tuple(other.definition.get("key") or ())
        own = other.name == entry.name
        if own and columns:
            found[key(entry.name, *columns)] = key(entry.name, *renamed(columns, change))
        for column, target in (other.definition.get("foreign_keys") or {}).items():
            table, _, its = target.partition(".")
            now = new.get(column, column) if own else column
            to = f"{table}.{new.get(its, its)}" if table.casefold() == entry.name.casefold() else target
            found[foreign_key(other.name, column, target)] = foreign_key(other.name, now, to)
    return {old: text for old, text in found.items() if old != text}
