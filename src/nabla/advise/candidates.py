"""Views that could answer the queries of a workload, made from the queries themselves (Agrawal, Chaudhuri, Narasayya 2000).

A candidate joins tables on their keys and groups the rows. The candidate of a query has its groups and its calls; where the
query compares columns with constants, a candidate either keeps the comparison, or groups by the columns too, so that it
serves the query with any constants. Two candidates whose tables are joined alike have a common one with the groups and
calls of both: the lattice of roll-ups over a star schema (Harinarayan, Rajaraman, Ullman 1996) grows from such pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from nabla._cached import cached_property
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr, Ref
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import At, Node, Scan
from nabla.answer.blocks import Block, Group, Leaf, NoBlock, build_plan, read_block

MOST_CANDIDATES = 80
"""Candidates that are compared, at most; pairs are no longer merged beyond that."""
MERGED_CALLS = frozenset({"sum", "count", "min", "max"})
"""Functions whose values for coarser groups follow from those for finer ones."""


@dataclass(frozen=True)
class Measure:
    """A function over the rows of a group. `argument` is None for count(*)."""

    function: str
    argument: Expr | None
    type: str

    @property
    def label(self) -> str:
        if self.argument is None:
            return "rows"
        columns = sorted(column.rsplit(".", 1)[-1] for column in self.argument.columns)
        return "_".join([self.function, *columns])


@dataclass(frozen=True)
class Candidate:
    """Tables joined on `joins`, filtered by `kept`, grouped by `keys`. Columns are called `table.field`, in all candidates
    alike, so that equal candidates of two queries are equal."""

    tables: frozenset[str]
    joins: frozenset[Expr]
    kept: frozenset[Expr]
    keys: frozenset[Expr]
    measures: frozenset[Measure]

    def merge(self, other: Candidate) -> Candidate:
        """The candidate that serves whatever either of the two serves: comparisons that only one keeps become groups."""
        shared = self.kept & other.kept
        keys = self.keys | other.keys
        for conjunct in (self.kept | other.kept) - shared:
            keys |= set(_columns_of(conjunct))
        tables, joins = self.tables | other.tables, self.joins | other.joins
        return Candidate(tables, joins, shared, keys, self.measures | other.measures)

    @cached_property
    def general(self) -> Candidate:
        """The candidate that keeps no comparison: it serves the same queries with any constants."""
        compared = {column for conjunct in self.kept for column in _columns_of(conjunct)}
        return replace(self, kept=frozenset(), keys=self.keys | compared)

    @cached_property
    def ordered_keys(self) -> tuple[Expr, ...]:
        return tuple(sorted(self.keys, key=lambda key: key.sql))

    @cached_property
    def ordered_measures(self) -> tuple[Measure, ...]:
        return tuple(sorted(self.measures, key=lambda m: (m.label, m.argument.sql if m.argument else "")))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the view's columns: those of keys and measures, each once."""
        taken: dict[str, int] = {}
        found = []
        wanted = [_label(key) for key in self.ordered_keys] + [m.label for m in self.ordered_measures]
        for label in wanted:
            taken[label] = taken.get(label, 0) + 1
            found.append(label if taken[label] == 1 else f"{label}_{taken[label]}")
        return tuple(found)

    @property
    def expressions(self) -> Iterator[Expr]:
        yield from (*self.joins, *self.kept, *self.keys)
        yield from (m.argument for m in self.measures if m.argument is not None)

    @cached_property
    def plan(self) -> Node:
        """The view as a plan of the algebra."""
        used = {part for e in self.expressions for part in e.walk() if isinstance(part, Ref)}
        leaves, names = [], dict[str, Expr]()
        for place, table in enumerate(sorted(self.tables)):
            refs = sorted((ref for ref in used if ref.name.rsplit(".", 1)[0] == table), key=lambda ref: ref.name)
            refs = list({ref.name: ref for ref in refs}.values())
            fields = tuple(ref.name.rsplit(".", 1)[1] for ref in refs)
            own = tuple(
                Column(unique_name(f, f"a{place}"), r.type, r.nullable) for f, r in zip(fields, refs, strict=True)
            )
            names |= {ref.name: column.ref for ref, column in zip(refs, own, strict=True)}
            leaves.append(Leaf(Scan(table, At.NEW, own, fields)))
        labels = iter(self.labels)
        keys = {unique_name(next(labels), "k"): key.substitute(names) for key in self.ordered_keys}
        calls = tuple(
            Call(
                Column(unique_name(next(labels), "m"), m.type),
                m.function,
                () if m.argument is None else (m.argument.substitute(names),),
            )
            for m in self.ordered_measures
        )
        shown = [Column(name, e.type, e.nullable) for name, e in keys.items()] + [c.column for c in calls]
        conjuncts = tuple(e.substitute(names) for e in sorted(self.joins | self.kept, key=lambda e: e.sql))
        outputs = tuple(Named(column, column.ref) for column in shown)
        return build_plan(Block(tuple(leaves), conjuncts, Group(keys, calls), (), outputs))


def _label(key: Expr) -> str:
    if key.column is not None:
        return key.column.rsplit(".", 1)[-1]
    return "_".join(sorted(column.rsplit(".", 1)[-1] for column in key.columns)) or "constant"


def candidates_of(queries: Iterable[Node]) -> tuple[Candidate, ...]:
    """The candidates of single queries, then of pairs of candidates that keep no comparison, until there are no new ones or
    enough."""
    own = dict.fromkeys(candidate for query in queries for candidate in _own_candidates(query))
    found = dict.fromkeys(candidate for candidate in own if not candidate.kept)
    fresh = set(found)
    while fresh and len(found) < MOST_CANDIDATES:
        made: dict[Candidate, None] = {}
        for one, other in combinations(found, 2):
            if (one in fresh or other in fresh) and _belong_together(one, other):
                made.setdefault(one.merge(other))
        new = [candidate for candidate in made if candidate not in found][: MOST_CANDIDATES - len(found)]
        found |= dict.fromkeys(new)
        fresh = set(new)
    return tuple(own | found)


def _belong_together(one: Candidate, other: Candidate) -> bool:
    """Whether the two join the tables that they share in the same way, and share one."""
    shared = one.tables & other.tables
    return bool(shared) and _within(one, shared) == _within(other, shared)


def _within(candidate: Candidate, tables: frozenset[str]) -> frozenset[Expr]:
    return frozenset(e for e in candidate.joins if {column.rsplit(".", 1)[0] for column in e.columns} <= tables)


def _own_candidates(query: Node) -> Iterator[Candidate]:
    """The candidates of every grouped block in a query, its subqueries included."""
    seen: set[int] = set()
    for node in query.walk():
        if id(node) in seen:
            continue
        seen.add(id(node))
        try:
            block = read_block(node, "c")
        except NoBlock:
            continue
        own = _of_block(block)
        if own is not None:
            yield own
            yield own.general


def _of_block(block: Block) -> Candidate | None:
    """A grouped block of different tables as a candidate; None if it is anything else, or calls other functions."""
    tables = [leaf.table for leaf in block.leaves]
    if block.group is None or None in tables or len(set(tables)) < len(tables):
        return None
    if any(leaf.on is not None for leaf in block.leaves):
        return None
    names = _common_names(block)
    conjuncts = [e.substitute(names) for e in block.conjuncts]
    joins = frozenset(e for e in conjuncts if _tables_of(e) > 1)
    measures: set[Measure] = set()
    keys = {e.substitute(names) for e in block.group.keys.values()}
    for call in block.group.calls:
        found = _measures_of(call, names)
        if found is None:
            return None
        measures |= found
        if call.distinct:
            keys |= {e.substitute(names) for e in call.arguments}
    measures.add(Measure("count", None, "bigint"))
    named = frozenset(t for t in tables if t is not None)
    return Candidate(named, joins, frozenset(conjuncts) - joins, frozenset(keys), frozenset(measures))


def _common_names(block: Block) -> Mapping[str, Expr]:
    """The columns of a block by their names in all candidates."""
    found: dict[str, Expr] = {}
    for leaf in block.leaves:
        assert isinstance(leaf.node, Scan)
        for column, field in zip(leaf.node.columns, leaf.node.fields, strict=True):
            found[column.name] = Ref(f"{leaf.table}.{field}", column.type, column.nullable)
    return found


def _measures_of(call: Call, names: Mapping[str, Expr]) -> set[Measure] | None:
    """The functions from which a call can be computed for coarser groups; None if there are none."""
    if call.filter is not None or call.template or call.ignore_nulls:
        return None
    arguments = [e.substitute(names) for e in call.arguments]
    if call.distinct:
        return set()  # its arguments become groups
    if call.function == "count":
        return {Measure("count", argument, "bigint") for argument in arguments if argument.nullable}
    if len(arguments) != 1:
        return None
    if call.function == "avg":
        total = _sum_type(arguments[0].type)
        if total is None:
            return None
        return {Measure("sum", arguments[0], total), Measure("count", arguments[0], "bigint")}
    return {Measure(call.function, arguments[0], call.column.type)} if call.function in MERGED_CALLS else None


def _sum_type(argument: str) -> str | None:
    """The type of the sum of values of an exact type."""
    if argument in ("tinyint", "smallint", "int", "bigint"):
        return "bigint"
    if argument.startswith("decimal("):
        precision, scale = argument[len("decimal(") : -1].split(",")
        return f"decimal({min(38, int(precision) + 10)},{int(scale)})"
    return None


def _columns_of(expr: Expr) -> Iterator[Expr]:
    """The columns that an expression reads, as expressions."""
    return (part for part in expr.walk() if isinstance(part, Ref))


def _tables_of(expr: Expr) -> int:
    return len({column.rsplit(".", 1)[0] for column in expr.columns})
