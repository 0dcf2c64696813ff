"""Column lineage of a lake: what views' columns are computed from, and which views' columns a column has an effect on.

It is read off the stored plans: nothing is run, and Spark is not started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nabla.algebra.lineage import CONDITIONS, DIRECT, How, Origin, Traced, Ways, trace
from nabla.errors import NablaError
from nabla.explain import notebook
from nabla.explain.tables import text_table
from nabla.frontends.datalog.lineage import trace_group, trace_program
from nabla.frontends.datalog.syntax import VIOLATION
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.sources import columns_of
from nabla.lake.objects.view import View, load_view
from nabla.storage.catalog import Entry, LakeState

Participation = Mapping[Origin, tuple[How, ...]]
"""Columns of tables, each with the ways in which it takes part."""


@dataclass(frozen=True)
class ColumnLineage:
    """A column of a view: the columns that it is computed from (`direct`), and those that decide about it (`conditions`), which
    are its own and those of the view's rows."""

    name: str
    direct: Participation = field(default_factory=dict)
    conditions: Participation = field(default_factory=dict)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """All columns that it depends on."""
        return tuple(sorted({*self.direct, *self.conditions}))

    def to_dict(self) -> dict[str, Any]:
        return {"direct": _plain(self.direct), "conditions": _plain(self.conditions)}


@dataclass(frozen=True)
class Lineage:
    """The lineage of a table, view or constraint, or of some of its columns: `columns` by name, and in `rows` the columns that
    decide which rows there are, for all columns alike. `tables` are the tables and views that they are of."""

    name: str
    kind: str
    columns: Mapping[str, ColumnLineage]
    rows: Participation
    tables: tuple[str, ...]

    _headings = ("column", "computed from", "depends on")

    def __getitem__(self, column: str) -> ColumnLineage:
        for name, one in self.columns.items():
            if name.casefold() == column.casefold():
                return one
        raise _no_column(self.name, column, tuple(self.columns))

    def to_dict(self) -> dict[str, Any]:
        columns = {name: one.to_dict() for name, one in self.columns.items()}
        return {
            "name": self.name,
            "kind": self.kind,
            "tables": list(self.tables),
            "rows": _plain(self.rows),
            "columns": columns,
        }

    def _lines(self) -> list[tuple[str, str, str]]:
        lines = [
            (name, _words(one.direct), _words({o: h for o, h in one.conditions.items() if self.rows.get(o) != h}))
            for name, one in self.columns.items()
        ]
        return [*lines, ("(all rows)", "", _words(self.rows))] if self.rows else lines

    def __str__(self) -> str:
        read = f", from {', '.join(self.tables)}" if self.tables else ""
        return f"{self.kind} {self.name}{read}\n\n{text_table(self._headings, self._lines())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = f"{self.kind}, from {', '.join(self.tables)}" if self.tables else self.kind
        return notebook.card(self.name, said, notebook.table(self._headings, self._lines()))


@dataclass(frozen=True)
class Affected:
    """A column of a view that a column has an effect on, and how."""

    view: str
    column: str
    kind: str
    how: tuple[How, ...]

    @property
    def direct(self) -> bool:
        """Whether values go into it; else they only decide about it."""
        return any(how in DIRECT for how in self.how)

    def to_dict(self) -> dict[str, Any]:
        return {"view": self.view, "column": self.column, "kind": self.kind, "how": list(self.how)}


@dataclass(frozen=True)
class Impact:
    """The columns of views and constraints that depend on a column, or on any column of a table; sources first."""

    name: str
    affected: tuple[Affected, ...]

    _headings = ("view", "column", "kind", "how")

    @property
    def views(self) -> tuple[str, ...]:
        """The views and constraints, each once."""
        return tuple(dict.fromkeys(one.view for one in self.affected))

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "affected": [one.to_dict() for one in self.affected]}

    def _lines(self) -> list[tuple[str, str, str, str]]:
        return [(one.view, one.column, one.kind, ", ".join(one.how)) for one in self.affected]

    def __str__(self) -> str:
        if not self.affected:
            return f"nothing depends on {self.name}"
        return f"{self.name} has an effect on\n\n{text_table(self._headings, self._lines())}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = "has an effect on" if self.affected else "has an effect on nothing"
        return notebook.card(self.name, said, notebook.table(self._headings, self._lines()))


def lineage_of(context: LakeContext, name: str, through: bool = True) -> Lineage:
    """The lineage of an object, or of one column as "view.column": in terms of tables, or without `through` of the tables and
    views that it reads itself."""
    state = context.log.state()
    entry, column = _find(context, state, name)
    graph = LakeLineage(state, through)
    traced = graph.traced(entry.name) if is_derived(entry) else Traced({c: {} for c in columns_of(entry)})
    wanted = list(traced.columns) if column is None else [column]
    columns = {name: column_of(name, traced) for name in wanted}
    rows = _sorted(traced.rows)
    tables = {origin.table for one in columns.values() for origin in one.origins} | set(graph.counted(entry.name))
    return Lineage(entry.name, entry.kind, columns, rows, tuple(n for n in state.entries if n in tables))


def impact_of(context: LakeContext, name: str) -> Impact:
    """The columns that depend on a column of a table or view, given as "table.column", or on a table as a whole."""
    state = context.log.state()
    entry, column = _find(context, state, name)
    graph = LakeLineage(state, through=True, ends=frozenset((entry.name,)))
    found = []
    for reader in graph.readers(entry.name):
        traced = graph.traced(reader)
        for own in traced.columns:
            ways = traced.all(own)
            hows = [h for o, h in ways.items() if o.table == entry.name and column in (None, o.column)]
            if hows:
                kind = state.entries[reader].kind
                found.append(Affected(reader, own, kind, _in_order(frozenset().union(*hows))))
    return Impact(f"{entry.name}.{column}" if column else entry.name, tuple(found))


class LakeLineage:
    """The lineage of all objects in a state of the lake, each traced once. It goes `through` views down to tables, or ends at
    whatever a view reads, and always at those in `ends`."""

    def __init__(self, state: LakeState, through: bool, ends: frozenset[str] = frozenset()) -> None:
        self._state = state
        self._through = through
        self._ends = ends
        self._known: dict[str, Traced] = {}

    def traced(self, name: str) -> Traced:
        """The lineage of a view or constraint, by the names of its columns."""
        if name not in self._known:
            entry = self._state.entries[name]
            view = load_view(name, entry.definition)
            for source in view.sources:  # those below first, so that no chain of views is too long for Python's stack
                self._prepare(source)
            self._known |= self._trace(view)
        return self._known[name]

    def _prepare(self, name: str) -> None:
        waiting = [name]
        while waiting:
            entry = self._state.entries[waiting[-1]]
            if not self._is_inner(entry) or entry.name in self._known:
                waiting.pop()
                continue
            view = load_view(entry.name, entry.definition)
            below = [s for s in view.sources if self._is_inner(self._state.entries[s]) and s not in self._known]
            if below:
                waiting += below
            else:
                self._known |= self._trace(view)
                waiting.pop()

    def _is_inner(self, entry: Entry) -> bool:
        return self._through and is_derived(entry) and entry.name not in self._ends

    def _relation(self, table: str) -> Traced | None:
        return self._known[table] if self._is_inner(self._state.entries[table]) else None

    def _fields(self, table: str) -> tuple[str, ...]:
        return columns_of(self._state.entries[table])

    def _trace(self, view: View) -> dict[str, Traced]:
        """The lineage of a view, and of those that are defined together with it."""
        if view.rules is not None and view.recursive:
            return trace_group(view.rules.program.group(view.name), self._relation, self._fields)
        if view.asked is not None:
            found = trace_program(view.asked.program, self._relation, self._fields)[VIOLATION]
            return {view.name: _renamed(found, view.outputs)}
        traced = trace(view.plan, self._relation, self._fields)
        columns = (traced.columns[c.name] for c in view.plan.columns)
        return {view.name: Traced(dict(zip(view.outputs, columns, strict=True)), traced.rows)}

    def counted(self, name: str) -> set[str]:
        """The tables that an object reads, be it that it only counts their rows."""
        found: set[str] = set()
        waiting = [name]
        seen = {name}
        while waiting:
            entry = self._state.entries[waiting.pop()]
            for source in load_view(entry.name, entry.definition).sources if is_derived(entry) else ():
                if not self._is_inner(self._state.entries[source]):
                    found.add(source)
                elif source not in seen:
                    seen.add(source)
                    waiting.append(source)
        return found

    def readers(self, name: str) -> list[str]:
        """The views and constraints that read an object, directly or through others, sources first."""
        order: dict[str, bool] = {}
        for other, entry in self._state.entries.items():
            if is_derived(entry):
                self._visit(other, name, order)
        return [other for other, reads in order.items() if reads]

    def _visit(self, start: str, name: str, order: dict[str, bool]) -> None:
        waiting = [start]
        while waiting:
            entry = self._state.entries[waiting[-1]]
            view = load_view(entry.name, entry.definition) if is_derived(entry) else None
            below = [s for s in view.sources if s not in order and s != name] if view else []
            if entry.name in order or not below:
                waiting.pop()
                if entry.name not in order:
                    sources = view.sources if view else ()
                    order[entry.name] = any(s == name or order.get(s, False) for s in sources)
                continue
            waiting += below


def _renamed(traced: Traced, outputs: tuple[str, ...]) -> Traced:
    return Traced(dict(zip(outputs, traced.columns.values(), strict=True)), traced.rows)


def column_of(name: str, traced: Traced) -> ColumnLineage:
    """The lineage of one column, with the conditions of the rows."""
    every = traced.all(name)
    direct = {o: h for o, h in every.items() if h.intersection(DIRECT)}
    conditions = {o: h for o, h in every.items() if h.intersection(CONDITIONS)}
    return ColumnLineage(name, _sorted(direct, DIRECT), _sorted(conditions, CONDITIONS))


def _sorted(ways: Ways, only: tuple[How, ...] = (*DIRECT, *CONDITIONS)) -> Participation:
    return {origin: tuple(h for h in only if h in ways[origin]) for origin in sorted(ways)}


def _in_order(hows: frozenset[How]) -> tuple[How, ...]:
    return tuple(h for h in (*DIRECT, *CONDITIONS) if h in hows)


def _find(context: LakeContext, state: LakeState, name: str) -> tuple[Entry, str | None]:
    """The object that "view" or "view.column" names, and the column."""
    names = context.names(state)
    table, dot, column = name.partition(".")
    entry = names.entry(table)
    if not dot:
        return entry, None
    columns = columns_of(entry)
    found = next((c for c in columns if c == column), None) or next(
        (c for c in columns if c.casefold() == column.casefold()), None
    )
    if found is None:
        raise _no_column(entry.name, column, columns)
    return entry, found


def _no_column(table: str, column: str, columns: tuple[str, ...]) -> NablaError:
    return NablaError(
        "NABLA_UNKNOWN_COLUMN",
        f'there is no column "{column}"',
        place=f'"{table}"',
        remedy=f"It has the columns {', '.join(columns)}.",
    )


def _plain(found: Participation) -> list[dict[str, Any]]:
    return [{"table": o.table, "column": o.column, "how": list(how)} for o, how in found.items()]


def _words(found: Participation) -> str:
    said = (f" ({', '.join(how)})" if how != ("identity",) else "" for how in found.values())
    return ", ".join(f"{origin}{how}" for origin, how in zip(found, said, strict=True))
