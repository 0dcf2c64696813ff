"""A view in the place of some relations of a query (Goldstein and Larson 2001).

The view's relations are mapped to relations of the query. The view must have every row that the query needs: the query's
conjuncts imply the view's. What the view does not filter is filtered over its columns; what it lacks is joined to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from nabla.algebra.build import equal, is_not_null
from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Apply, Column, Expr, Ref
from nabla.algebra.memo import Memo
from nabla.algebra.names import unique_name
from nabla.algebra.nodes import At, Scan
from nabla.answer.blocks import Block, Group, Leaf
from nabla.answer.canonical import canonical, is_exact, strip
from nabla.answer.lossless import drop_extras
from nabla.answer.predicates import Known, rejects_null
from nabla.answer.reasons import NoMatch
from nabla.answer.renamed_view import Places, RenamedView
from nabla.answer.rollup import RollUp, signature
from nabla.answer.stored_view import Match, Means, StoredView

_DIRECT = frozenset(
    ("LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "EqualTo", "In", "IsNull", "IsNotNull")
)


class Attempt:
    """One way to put a view into a query."""

    def __init__(self, means: Means, query: Block, view: StoredView, block: Block, mapping: Places) -> None:
        if block.group is not None and query.group is None:
            raise NoMatch("GROUPS", "it has groups, and the query needs single rows")
        self.means = means
        self.query = query
        self.view = view
        self.fired: set[str] = set()
        self.covered = [query.leaves[place] for place in mapping.values()]
        self.remaining = [leaf for place, leaf in enumerate(query.leaves) if place not in mapping.values()]
        self.back: dict[int, Leaf] = {}
        self.back_on: list[Expr] = []
        renamed = RenamedView(block, query, mapping)
        self.mapping, self.block, self.names = mapping, block, renamed
        self.conjuncts = [renamed(c) for c in block.conjuncts]
        self.known_query = means.known(query.conjuncts, query.inner_not_null | self._proved_values())
        self.indicators: list[Expr] = []
        self.made_inner: set[int] = set()
        self._signatures: dict[tuple[object, ...], int] = {}

    def _proved_values(self) -> frozenset[str]:
        has_values = self.means.proofs.has_values
        return frozenset(
            name
            for leaf in self.query.leaves
            if leaf.table is not None and leaf.on is None
            for fld, name in leaf.fields.items()
            if has_values(leaf.table, fld)
        )

    def run(self) -> Match:
        self._check_outer()
        held = self._check_contained()
        self.known_view = Known([*held, *self.proved], self.known_query.not_null)
        self._scan_view()
        if self.block.group is None:
            return self._rows()
        return self._groups()

    def failing(self) -> list[Expr]:
        """The conjuncts of the view that the query does not imply."""
        self._check_outer()
        return [c for c in self._own_conjuncts() if not self.known_query.implies(c)]

    # ------------------------------------------------------------ containment

    def _check_outer(self) -> None:
        """Outer joins of the view are those of the query, or are made inner by it, or lose nothing."""
        for own, its in self.mapping.items():
            mine, other = self.block.leaves[own], self.query.leaves[its]
            if mine.on is None and other.on is None:
                continue
            label = mine.table or "a subquery"
            if mine.on is None:
                raise NoMatch("OUTER", f"it joins {label} and keeps only rows that meet one of it")
            on = [self.names(c) for c in mine.on]
            if other.on is not None:
                if {canonical(c) for c in on} != {canonical(c) for c in other.on}:
                    raise NoMatch("OUTER", f"it joins {label} by another condition")
                self.fired.add("same outer join")
                continue
            self.conjuncts += on
            self.indicators.append(self._indicator(other, on))
            self.made_inner.add(its)
            self.fired.add("outer join made inner")
        if any(leaf.on is not None and self._depends(leaf) for leaf in self.remaining):
            raise NoMatch("OUTER", "an outer join of the query depends on a column that only the tables have")

    def _depends(self, leaf: Leaf) -> bool:
        return self.block.group is not None and self.query.group is not None

    def _indicator(self, leaf: Leaf, on: Sequence[Expr]) -> Expr:
        """A test over the tables' columns for rows of an outer join that did meet a row: a column that then is not NULL."""
        refused = frozenset().union(*map(rejects_null, on)) if on else frozenset()
        for column in leaf.columns:
            if column.name in refused or not column.nullable:
                return is_not_null(strip(column.ref))
        raise NoMatch("OUTER", f"it does not tell which rows met one of {leaf.table or 'a subquery'}")

    def _check_contained(self) -> list[Expr]:
        """The view's conjuncts, all of which the query implies."""
        conjuncts = self._own_conjuncts()
        for conjunct in conjuncts:
            if not self.known_query.implies(conjunct):
                raise NoPredicate(conjunct)
            self.fired.add("contained")
        return conjuncts

    def _own_conjuncts(self) -> list[Expr]:
        """The view's conjuncts that the query has to imply, after the proof that its other tables lose nothing."""
        extras = [self.names.leaf(place) for place in range(len(self.block.leaves)) if place not in self.mapping]
        self.proved: list[Expr] = []
        conjuncts = self.conjuncts
        if extras:
            others = [self.names.leaf(place) for place in self.mapping]
            conjuncts, self.proved = drop_extras(extras, others, conjuncts, self.known_query, self.means.proofs)
            self.fired.add("lossless outer join" if all(e.on is not None for e in extras) else "lossless join")
        return conjuncts

    # ------------------------------------------------------------ the view's columns

    def _scan_view(self) -> None:
        """A scan of the view, and the expressions over tables that its columns hold."""
        block, number = self.block, next(self.means.numbers)
        columns = tuple(
            Column(unique_name(f, f"v{number}"), c.type, True)
            for f, c in zip(self.view.fields, block.columns, strict=True)
        )
        self.leaf = Leaf(Scan(self.view.name, At.NEW, columns, self.view.fields))
        self.held: dict[Expr, Expr] = {}
        self._formed: Memo[Known, dict[Expr, Expr]] = Memo()
        keys = {name: self.names(e) for name, e in block.group.keys.items()} if block.group else {}
        for output, column in zip(block.outputs, columns, strict=True):
            expr = output.expr
            if block.group is None:
                expr = self.names(expr)
            elif expr.columns <= keys.keys():
                expr = expr.substitute(keys)
            else:
                continue
            if not expr.columns and not isinstance(expr, Apply):
                continue
            self.held.setdefault(canonical(expr), strip(column.ref))

    def _express(self, expr: Expr, known: Known) -> Expr:
        """An expression over tables as one over the view's columns and the relations beside it."""
        if known not in self._formed:
            self._formed[known] = {known.form(e): column for e, column in reversed(self.held.items())}
        held = self._formed[known]
        beside = {name for leaf in self.remaining for name in leaf.node.names}
        return self._rewrite(known.form(expr), expr, held, known, beside)

    def _rewrite(self, form: Expr, expr: Expr, held: Mapping[Expr, Expr], known: Known, beside: set[str]) -> Expr:
        if form in held:
            if canonical(expr) not in self.held:
                self.fired.add("equal columns")
            return held[form]
        if isinstance(expr, Ref):
            if expr.name in beside:
                return expr
            other = next((name for name in sorted(beside) if known.same(name) == known.same(expr.name)), None)
            if other is not None:
                return Ref(other, expr.type, True)
            return self._join_back(expr, held, known)
        parts = [self._rewrite(known.form(part), part, held, known, beside) for part in expr.parts]
        return expr.with_parts(*parts) if parts else expr

    def _join_back(self, ref: Ref, held: Mapping[Expr, Expr], known: Known) -> Expr:
        """A column that the view lacks, from its table, whose proved key the view has."""
        place, leaf = next((i, leaf) for i, leaf in enumerate(self.query.leaves) if ref.name in leaf.node.names)
        missing = NoMatch("COLUMN", f"it does not have {leaf.table or 'a subquery'}.{_field(leaf, ref.name)}")
        if leaf.table is None or leaf.on is not None or not isinstance(leaf.node, Scan):
            raise missing
        if place not in self.back:
            fields = dict(leaf.fields)
            have = {f: held[form] for f, n in fields.items() if (form := known.form(self._typed(leaf, n))) in held}
            exact = {f: e for f, e in have.items() if is_exact(e.type)}
            if not exact or not self.means.proofs.unique(leaf.table, tuple(sorted(exact))):
                raise missing
            # Where the view's outer join met no row, all columns are NULL: a row whose key is NULL must not be taken for it.
            valued = {f for f in exact if self.known_query.same(fields[f]) in self.known_query.valued}
            if place in self.made_inner and not valued:
                raise missing
            number = next(self.means.numbers)
            columns = tuple(c.rename(unique_name(c.label, f"b{number}")) for c in leaf.columns)
            again = Leaf(replace(leaf.node, output=columns))
            self.back[place] = again
            for f, e in exact.items():
                column = again.node.column(again.fields[f]).ref
                self.back_on.append(strip(equal(e, column, null_safe=f not in valued)))
            self.fired.add("join back")
        again = self.back[place]
        return strip(again.node.column(again.fields[_field(leaf, ref.name)]).ref)

    def _typed(self, leaf: Leaf, name: str) -> Expr:
        return strip(leaf.node.column(name).ref)

    # ------------------------------------------------------------ the query over the view

    def _compensation(self) -> list[Expr]:
        """The query's conjuncts that the view does not imply, over its columns."""
        left = [c for c in self.query.conjuncts if not self.known_view.implies(c)]
        if left:
            self.fired.add("filter")
        for conjunct in left:
            self._check_float(conjunct)
        # A column that equals one of an outer join does so only in rows that met one, which the indicator has to find out.
        indicators = [self._express(c, Known(())) for c in self.indicators]
        return [*indicators, *(self._express(c, self.known_view) for c in left)]

    def _check_float(self, conjunct: Expr) -> None:
        """Groups make 0.0 of -0.0: only comparisons take both as equal."""
        if self.block.group is None:
            return
        for part in conjunct.walk():
            computes = isinstance(part, Apply) and part.function not in _DIRECT | {"And", "Or", "Not"}
            if computes and any(isinstance(a, Ref) and not is_exact(a.type) for a in part.parts):
                raise NoMatch("COLUMN", f"it groups by a number that {conjunct} computes with")

    def _leaves(self) -> tuple[Leaf, ...]:
        outer = [
            replace(leaf, on=tuple(self._express(c, self.known_query) for c in leaf.on or ()))
            for leaf in self.remaining
            if leaf.on is not None
        ]
        inner = [leaf for leaf in self.remaining if leaf.on is None]
        if self.remaining:
            self.fired.add("view joined with tables" if self.block.group is None else "groups joined with tables")
        return (self.leaf, *inner, *self.back.values(), *outer)

    def _rows(self) -> Match:
        conjuncts = self._compensation()
        group = self.query.group
        outputs = self.query.outputs
        known = self.known_query
        if group is None:
            outputs = tuple(Named(o.column, self._express(o.expr, known)) for o in outputs)
        else:
            keys = {name: self._express(e, known) for name, e in group.keys.items()}
            group = Group(keys, tuple(self._call(c, known) for c in group.calls))
            self.fired.add("groups over a view of rows")
        leaves = self._leaves()
        conjuncts += self.back_on
        return self._done(Block(leaves, tuple(conjuncts), group, self.query.having, outputs))

    def _call(self, call: Call, known: Known) -> Call:
        return replace(
            call,
            arguments=tuple(self._express(a, known) for a in call.arguments),
            filter=None if call.filter is None else self._express(call.filter, known),
        )

    def _groups(self) -> Match:
        group, own = self.query.group, self.block.group
        assert group is not None
        assert own is not None
        conjuncts = self._compensation()
        if not own.keys and (group.keys or conjuncts or self.remaining):
            raise NoMatch("GROUPS", "it has one row for all rows, and the query needs more than that")
        known = self.known_query
        keys = {name: self._express(e, known) for name, e in group.keys.items()}
        same = not self.remaining and {known.form(self.names(e)) for e in own.keys.values()} <= {
            known.form(e) for e in group.keys.values()
        }
        if same and bool(own.keys) == bool(group.keys):
            try:
                return self._same_groups(conjuncts, own, group)
            except NoMatch:
                if self.block.having:
                    raise
        if self.block.having:
            raise NoMatch("HAVING", f"it keeps only groups with {_text(self.block.having)}")
        return self._rolled_up(group, conjuncts, keys, self._stored_calls(own))

    def _stored_calls(self, own: Group) -> dict[tuple[object, ...], Expr]:
        by_name = {c.name: o for o, c in zip(self.block.outputs, self.leaf.columns, strict=True)}
        found: dict[tuple[object, ...], Expr] = {}
        for column, output in by_name.items():
            call = next((c for c in own.calls if output.expr.column == c.column.name), None)
            if call is not None:
                mapped = replace(
                    call,
                    arguments=tuple(self.names(a) for a in call.arguments),
                    filter=None if call.filter is None else self.names(call.filter),
                )
                found.setdefault(signature(mapped, self.known_query.form), strip(self.leaf.node.column(column).ref))
        return found

    def _same_groups(self, conjuncts: list[Expr], own: Group, group: Group) -> Match:
        """One row of the view for each group of the query: nothing is left to add up. Expressions are compared over the
        tables' columns, with a call as a column that its signature names."""
        mine, theirs = self._posts(own, self.names), self._posts(group, lambda e: e)
        held = {
            canonical(o.expr.substitute(mine)): strip(c.ref)
            for o, c in reversed(list(zip(self.block.outputs, self.leaf.columns, strict=True)))
            if o.expr.columns
        }
        having = {canonical(h.substitute(mine)) for h in self.block.having}
        wanted = [h for h in self.query.having if canonical(h.substitute(theirs)) not in having]
        if len(self.query.having) - len(wanted) < len(having):
            raise NoMatch("HAVING", f"it keeps only groups with {_text(self.block.having)}")
        known = self.known_query
        calls = {c.column.name for c in group.calls}

        def express(expr: Expr) -> Expr:
            form = canonical(expr.substitute(theirs))
            if form in held:
                return held[form]
            if isinstance(expr, Ref):
                if expr.name in calls:
                    raise NoMatch("AGGREGATE", f"it does not have {_call_of(group, expr.name)}")
                return self._express(group.keys[expr.name], known)
            return expr.with_parts(*map(express, expr.parts)) if expr.parts else expr

        outputs = tuple(Named(o.column, express(o.expr)) for o in self.query.outputs)
        conjuncts = [*conjuncts, *map(express, wanted)]
        leaves = self._leaves()
        self.fired.add("same groups")
        if having:
            self.fired.add("same having")
        return self._done(Block(leaves, (*conjuncts, *self.back_on), None, (), outputs))

    def _posts(self, group: Group, names: Callable[[Expr], Expr]) -> dict[str, Expr]:
        """Keys and calls of a group as expressions that are comparable between the view and the query."""
        form = self.known_query.form
        found: dict[str, Expr] = {name: form(names(e)) for name, e in group.keys.items()}
        for call in group.calls:
            mapped = replace(
                call,
                arguments=tuple(map(names, call.arguments)),
                filter=None if call.filter is None else names(call.filter),
            )
            number = self._signatures.setdefault(signature(mapped, form), len(self._signatures))
            found[call.column.name] = Ref(f"call {number}", call.column.type, True)
        return found

    def _rolled_up(
        self, group: Group, conjuncts: list[Expr], keys: Mapping[str, Expr], stored: Mapping[tuple[object, ...], Expr]
    ) -> Match:
        known = self.known_query

        def express(expr: Expr) -> Expr:
            if any(isinstance(p, Ref) and not is_exact(p.type) for p in expr.walk()):
                raise NoMatch("COLUMN", f"it groups by values that {expr} computes with")
            return self._express(expr, known)

        rollup = RollUp(stored, known.form, express, lambda e: known.implies(is_not_null(e)), self.means.ansi)
        values = {c.column.name: rollup.value(c) for c in group.calls}
        outputs = tuple(Named(o.column, o.expr.substitute(values)) for o in self.query.outputs)
        having = tuple(h.substitute(values) for h in self.query.having)
        self.fired |= rollup.fired | {"roll up"}
        leaves = self._leaves()
        back = self.back_on
        grouped = Group(keys, tuple(rollup.calls))
        return self._done(Block(leaves, (*conjuncts, *back), grouped, having, outputs))

    def _done(self, block: Block) -> Match:
        if not self.fired - {"same groups"}:
            self.fired.add("equal")
        return Match(self.view, block, frozenset(self.fired))


class NoPredicate(NoMatch):
    """The view filters rows that the query needs; `conjunct` is its filter over the query's columns."""

    def __init__(self, conjunct: Expr) -> None:
        super().__init__("PREDICATE", f"it keeps only rows with {conjunct}")
        self.conjunct = conjunct


def _field(leaf: Leaf, name: str) -> str:
    return next(f for f, n in leaf.fields.items() if n == name)


def _call_of(group: Group, name: str) -> Call:
    return next(call for call in group.calls if call.column.name == name)


def _text(expressions: Iterable[Expr]) -> str:
    return " AND ".join(map(str, expressions))
