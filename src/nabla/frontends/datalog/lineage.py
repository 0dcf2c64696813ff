"""Column lineage of predicates: of those that recursion defines together, and of all that a program defines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from nabla.algebra.lineage import Relation, Traced, decide, fixpoint, merge, trace
from nabla.algebra.nodes import Node
from nabla.calculus.recursion.relations import Present, RecursiveGroup, added_name, frontier_name
from nabla.frontends.datalog.program import Program

FieldsOf = Callable[[str], Iterable[str]]


def trace_group(group: RecursiveGroup, relation: Relation, fields_of: FieldsOf) -> dict[str, Traced]:
    """The lineage of predicates that depend on each other, by the names of their columns."""
    names = group.predicates
    own = {naming(name): name for name in names for naming in (str, frontier_name, added_name)}
    start = group.queries.start()
    step = group.queries.step(Present(stored=True), names)
    nothing = {name: Traced({c.name: {} for c in group.columns(name)}) for name in names}

    def grow(known: Mapping[str, Traced]) -> dict[str, Traced]:
        def read(table: str) -> Traced | None:
            return known[own[table]] if table in own else relation(table)

        def one(name: str) -> Traced:
            queries = [queries[name] for queries in (start, step) if name in queries]
            fields = [c.name for c in group.columns(name)]
            return _as_set(fields, [known[name], *(_named(q, fields, read, fields_of) for q in queries)])

        return {name: one(name) for name in names}

    return fixpoint(nothing, grow)


def trace_program(program: Program, relation: Relation, fields_of: FieldsOf) -> dict[str, Traced]:
    """The lineage of all predicates of a program, by the names of their columns."""
    found: dict[str, Traced] = {}

    def read(table: str) -> Traced | None:
        return found[table] if table in found else relation(table)

    for stratum in program.strata:
        if stratum.recursive:
            found |= trace_group(program.group(stratum.predicates[0]), read, fields_of)
            continue
        for name in stratum.predicates:
            fields = [c.name for c in program.columns(name)]
            found[name] = _named(program.plan(name), fields, read, fields_of)
    return found


def _named(query: Node, fields: list[str], relation: Relation, fields_of: FieldsOf) -> Traced:
    traced = trace(query, relation, fields_of)
    return Traced({f: traced.columns[c.name] for f, c in zip(fields, query.columns, strict=True)}, traced.rows)


def _as_set(fields: list[str], parts: list[Traced]) -> Traced:
    """The rows of several relations together, each once."""
    columns = {f: merge(*(part.columns[f] for part in parts)) for f in fields}
    return Traced(columns, merge(*(part.rows for part in parts), decide("group", *columns.values())))
