"""A plan as a block: tables that are joined, filtered, perhaps grouped, and shown. Views and queries are compared as blocks.

    outputs( having( group( conjuncts( leaf ⋈ leaf … ⟕ outer leaf … ) ) ) )

A leaf is a scan, or any other plan below, which is compared as a whole. Columns of leaves are called after their fields and the
place of their leaf, so that a block does not depend on the names that a front end gave them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nabla._cached import cached_property
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Expr
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import Aggregate, Distinct, Filter, Join, Node, Project, Scan
from nabla.algebra.shape import shape
from nabla.answer.canonical import conjuncts_of, repeatable, strip
from nabla.answer.predicates import rejects_null


class NoBlock(Exception):
    """The plan is no block: an operator above the groups, or a value that differs from one run to the next."""


@dataclass(frozen=True, eq=False)
class Leaf:
    """A relation of a block. `node` has the names of the block's columns; `on` is the condition of its outer join, if its
    columns may be NULL for rows that meet none of its own. `key` is equal for leaves that hold the same rows."""

    node: Node
    on: tuple[Expr, ...] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.node.columns

    @cached_property
    def fields(self) -> dict[str, str]:
        """The names of the columns by the fields of the table, or by position."""
        if isinstance(self.node, Scan):
            return dict(zip(self.node.fields, (c.name for c in self.columns), strict=True))
        return {str(place): column.name for place, column in enumerate(self.columns)}

    @cached_property
    def key(self) -> object:
        if isinstance(self.node, Scan):
            return "scan", self.node.table, self.node.at
        assert isinstance(self.node, Project)
        return "plan", shape(self.node.input)

    @property
    def table(self) -> str | None:
        return self.node.table if isinstance(self.node, Scan) else None


@dataclass(frozen=True, eq=False)
class Group:
    """Groups: keys by the names of their columns, and calls over the columns of leaves."""

    keys: Mapping[str, Expr]
    calls: tuple[Call, ...]


@dataclass(frozen=True, eq=False)
class Block:
    """`outputs` read columns of leaves, or keys and calls if rows are grouped; so do the conjuncts of `having`."""

    leaves: tuple[Leaf, ...]
    conjuncts: tuple[Expr, ...]
    group: Group | None
    having: tuple[Expr, ...]
    outputs: tuple[Named, ...]

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(leaf.table for leaf in self.leaves if leaf.table is not None)

    @cached_property
    def inner_not_null(self) -> frozenset[str]:
        """Columns of leaves that are declared without NULLs, and are not those of an outer join."""
        return frozenset(c.name for leaf in self.leaves if leaf.on is None for c in leaf.columns if not c.nullable)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(o.column for o in self.outputs)


# ---------------------------------------------------------------- from a plan


@dataclass
class _Reader:
    """Collects the leaves and conjuncts of joins; `mark` tells the columns of one block from those of another."""

    mark: str
    leaves: list[Leaf] = field(default_factory=list)
    conjuncts: list[Expr] = field(default_factory=list)

    def read(self, node: Node) -> dict[str, Expr]:
        """Add what a plan joins, and give its columns as expressions over those of the leaves."""
        match node:
            case Filter():
                env = self.read(node.input)
                self.conjuncts += _substitute(node.conjuncts, env)
                return env
            case Project():
                env = self.read(node.input)
                return {o.column.name: e for o, e in zip(node.outputs, _substitute(_exprs(node), env), strict=True)}
            case Join(kind="inner"):
                env = self.read(node.left) | self.read(node.right)
                self.conjuncts += _substitute(node.on, env)
                return env
            case Join(kind="left"):
                return self._outer(node, node.left, node.right)
            case Join(kind="right"):
                return self._outer(node, node.right, node.left)
        return self._leaf(node)

    def _outer(self, join: Join, kept: Node, other: Node) -> dict[str, Expr]:
        """An outer join: conditions on the other side alone go into the condition of the join."""
        env = self.read(kept)
        tests: list[Expr] = []
        while isinstance(other, Filter):
            tests += other.conjuncts
            other = other.input
        simple = isinstance(other, Scan) or (isinstance(other, Project) and all(o.is_rename for o in other.outputs))
        if isinstance(other, Project) and simple and isinstance(other.input, Scan):
            inner = self._leaf(other.input)
            own = {o.column.name: o.expr.substitute(inner) for o in other.outputs}
        else:
            own = inner = self._leaf(other)
        on = _substitute((*join.on, *tests), env | inner | own)
        self.leaves[-1] = replace(self.leaves[-1], on=tuple(part for e in on for part in conjuncts_of(e)))
        return env | own

    def _leaf(self, node: Node) -> dict[str, Expr]:
        place = len(self.leaves)
        names = node.fields if isinstance(node, Scan) else tuple(c.label for c in node.columns)
        columns = tuple(
            c.rename(unique_name(name if isinstance(node, Scan) else f"{name}.{i}", f"{self.mark}{place}"))
            for i, (c, name) in enumerate(zip(node.columns, names, strict=True))
        )
        renamed: Node
        if isinstance(node, Scan):
            renamed = replace(node, output=columns)
        else:
            renamed = Project(node, tuple(Named(c, old.ref) for c, old in zip(columns, node.columns, strict=True)))
        self.leaves.append(Leaf(renamed))
        return {old.name: strip(c.ref) for old, c in zip(node.columns, columns, strict=True)}


def _exprs(node: Project) -> tuple[Expr, ...]:
    return tuple(o.expr for o in node.outputs)


def _substitute(expressions: Iterable[Expr], env: Mapping[str, Expr]) -> list[Expr]:
    found = [strip(e).substitute(env) for e in expressions]
    if not repeatable(found):
        raise NoBlock("it uses the clock or a function that gives another value each time")
    return found


def read_block(plan: Node, mark: str) -> Block:
    """A plan as a block. Raises NoBlock where its top is no block."""
    posts: list[Node] = []
    node = plan
    while isinstance(node, Filter | Project):
        posts.append(node)
        node = node.input
    reader = _Reader(mark)
    if isinstance(node, Aggregate | Distinct):
        below = reader.read(node.input)
        keys = node.keys if isinstance(node, Aggregate) else tuple(c.name for c in node.columns)
        calls = node.calls if isinstance(node, Aggregate) else ()
        checked = [_call(c, below) for c in calls]
        group = Group({k: below[k] for k in keys}, tuple(checked))
        env = {c.name: strip(c.ref) for c in node.columns}
    else:
        posts = []
        node = plan
        group = None
        env = reader.read(plan)
    having: list[Expr] = []
    for post in reversed(posts):
        if isinstance(post, Filter):
            having += _substitute(post.conjuncts, env)
        elif isinstance(post, Project):
            env = {o.column.name: e for o, e in zip(post.outputs, _substitute(_exprs(post), env), strict=True)}
    outputs = tuple(Named(c, env[c.name]) for c in plan.columns)
    split = tuple(part for e in reader.conjuncts for part in conjuncts_of(e))
    block = Block(tuple(reader.leaves), split, group, tuple(p for e in having for p in conjuncts_of(e)), outputs)
    return _inner_where_filtered(block)


def _call(call: Call, env: Mapping[str, Expr]) -> Call:
    found = replace(
        call,
        arguments=tuple(_substitute(call.arguments, env)),
        filter=_substitute((call.filter,), env)[0] if call.filter is not None else None,
    )
    return found


def _inner_where_filtered(block: Block) -> Block:
    """Outer joins whose rows with NULLs the conjuncts drop are inner joins."""
    changed = True
    while changed:
        changed = False
        refused = frozenset().union(*map(rejects_null, block.conjuncts)) if block.conjuncts else frozenset()
        for place, leaf in enumerate(block.leaves):
            if leaf.on is not None and not refused.isdisjoint(leaf.node.names):
                leaves = (*block.leaves[:place], replace(leaf, on=None), *block.leaves[place + 1 :])
                block = replace(block, leaves=leaves, conjuncts=(*block.conjuncts, *leaf.on))
                changed = True
                break
    return block


# ---------------------------------------------------------------- and back


def build_plan(block: Block) -> Node:
    """The block as a plan with exactly its outputs."""
    node, left = _join_leaves(block)
    if left:
        node = Filter(node, tuple(left))
    if block.group is None:
        return Project(node, block.outputs)
    node = _grouped(node, block.group)
    if block.having:
        node = Filter(node, block.having)
    return Project(node, block.outputs)


def _grouped(node: Node, group: Group) -> Node:
    """Keys become columns under their names, beside the columns that calls read."""
    needed = {name for call in group.calls for e in call.inputs for name in e.columns}
    keys = [Named(Column(name, e.type, e.nullable), e) for name, e in group.keys.items()]
    kept = [Named(c, c.ref) for c in node.columns if c.name in needed and c.name not in group.keys]
    return Aggregate(Project(node, (*keys, *kept)), tuple(group.keys), group.calls)


def _join_leaves(block: Block) -> tuple[Node, list[Expr]]:
    """All leaves joined: inner ones first, each after one that a condition connects it with. Gives also the conjuncts that
    only the whole can decide."""
    waiting = list(block.conjuncts)
    inner = [leaf for leaf in block.leaves if leaf.on is None]
    node = inner.pop(0).node
    node, waiting = _filtered(node, waiting)
    while inner:
        place = next((i for i, leaf in enumerate(inner) if _connects(node, leaf, waiting)), 0)
        leaf = inner.pop(place)
        own, waiting = _filtered(leaf.node, waiting)
        names = node.names | own.names
        on = tuple(c for c in waiting if c.columns <= names)
        waiting = [c for c in waiting if not c.columns <= names]
        node = Join(node, own, on)
    for leaf in (leaf for leaf in block.leaves if leaf.on is not None):
        node = Join(node, leaf.node, leaf.on or (), "left")
    return node, waiting


def _filtered(node: Node, waiting: Sequence[Expr]) -> tuple[Node, list[Expr]]:
    own = tuple(c for c in waiting if c.columns and c.columns <= node.names)
    rest = [c for c in waiting if not (c.columns and c.columns <= node.names)]
    return (Filter(node, own) if own else node), rest


def _connects(node: Node, leaf: Leaf, conjuncts: Iterable[Expr]) -> bool:
    names = node.names | leaf.node.names
    return any(
        c.columns <= names and not c.columns.isdisjoint(leaf.node.names) and not c.columns <= leaf.node.names
        for c in conjuncts
    )


def scans_of(block: Block) -> Iterator[Scan]:
    for leaf in block.leaves:
        if isinstance(leaf.node, Scan):
            yield leaf.node
