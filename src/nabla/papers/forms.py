"""The forms in which the papers derive the change of a view: each for the same view, with its size and with what it reads.

`derive_form(name, view, changed, tables)` gives one of them as text. All but the signed one are about sets, and some are
defined for fewer operators: a form that a view does not have says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from nabla.algebra.memo import Memo
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.notation.formula import Formula, Writer
from nabla.algebra.notation.lines import Page
from nabla.algebra.notation.words import plural
from nabla.algebra.traverse import parts, relations
from nabla.calculus.delta import Derivation
from nabla.calculus.obstacles import obstacles
from nabla.errors import NablaError
from nabla.papers import count_algorithm, qian_wiederhold
from nabla.papers.change_routes import leaf_by_leaf, route
from nabla.papers.change_steps import describe
from nabla.papers.count_algorithm import Canonical
from nabla.papers.pair_notation import SetFormulas, derivation_lines
from nabla.papers.pairs import Pair, Pairs
from nabla.papers.set_form import Tables, set_form

FormName = Literal["pairs", "count", "change table", "qian-wiederhold", "signed"]
FORM_NAMES: tuple[FormName, ...] = get_args(FormName)
MOST_DRAWN = 200
"""Operators of a view that is drawn as a tree."""


@dataclass(frozen=True)
class PaperForm:
    """A derivation. `lines` is its text, `operators` its size as a graph that shares results and `written_out` as a tree
    without names for them; `view_operators` is the size of the view. `reads` has the states of each table that it reads:
    deleted, inserted, before or after. If the view has no such form, `reason` says why and the rest is empty."""

    name: FormName
    title: str
    source: str
    minimal: str
    lines: tuple[str, ...] = ()
    operators: int = 0
    written_out: int = 0
    view_operators: int = 0
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reason: str = ""

    @property
    def size(self) -> str:
        """The size in words."""
        shared = f"{plural(self.operators, 'operator')} for the {self.view_operators:,} of the view"
        if self.written_out > 10**6:
            return f"{shared}; without names for shared results, more than a million"
        return f"{shared}; without names for shared results {self.written_out:,}"

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "lines": list(self.lines), "reads": {t: list(s) for t, s in self.reads.items()}}


@dataclass(frozen=True)
class _Derived:
    lines: tuple[str, ...]
    results: tuple[Node | None, ...]


Derive = Callable[[Node, frozenset[str], Tables | None], _Derived]


def _pairs(view: Node, changed: frozenset[str], tables: Tables | None) -> _Derived:
    query, pairs = set_form(view, tables), Pairs(changed)
    lines = derivation_lines(pairs, query)
    return _Derived(tuple(lines), _both(pairs.of(query)))


def _qian_wiederhold(view: Node, changed: frozenset[str], tables: Tables | None) -> _Derived:
    pair = qian_wiederhold.solution(set_form(view, tables), changed)
    formulas = SetFormulas((("∇V", pair.delete), ("ΔV", pair.insert)))
    return _Derived(tuple(formulas.lines()), _both(pair))


def _count(view: Node, changed: frozenset[str], tables: Tables | None) -> _Derived:
    query, pairs = set_form(view, tables), Pairs(changed)
    if changed.isdisjoint(relations(query)):
        return _Derived(("c = ∅",), ())
    table = count_algorithm.count_table(query, pairs)
    return _Derived(tuple(_canonical_lines(query, changed)), (table,))


def _change_table(view: Node, changed: frozenset[str], tables: Tables | None) -> _Derived:
    way = route(set_form(view, tables), changed)
    drawn = describe(way).splitlines() if _tree_size(way.node) <= MOST_DRAWN else ["a view too large to be drawn"]
    found = [table.rows for step in leaf_by_leaf(way, changed) if (table := way.change(step)) is not None]
    page, writer = Page(), Writer(*found, reading=_before_change)
    named = [line for i, rows in enumerate(found, 1) for line in page.lines(f"□{i} V", writer.write(rows))]
    return _Derived((*drawn, *(named or ["□V = ∅"])), tuple(found))


def _before_change(writer: Writer, node: Node) -> Formula | None:
    """Tables without a sign for their state: all of them are read as they were before the change."""
    return writer.make(writer.table(node)) if isinstance(node, Scan) else None


def _signed(view: Node, changed: frozenset[str], tables: Tables | None) -> _Derived:
    if found := obstacles(view):
        raise LookupError(str(found[0]))
    change = Derivation(changed).d(view)
    if change is None:
        return _Derived(("d V = ∅",), ())
    return _Derived(tuple(Page().lines("d V", Writer(change).write(change))), (change,))


@dataclass(frozen=True)
class _Kind:
    title: str
    source: str
    minimal: str
    derive: Derive


_KINDS: dict[FormName, _Kind] = {
    "pairs": _Kind(
        "the minimal pair ∇V and ΔV, all tables at once",
        "Griffin, Libkin, Trickey 1997, figure 2; Griffin, Kumar 1998, figure 4; thesis, tables 4.1 and 4.3",
        "always: no row is deleted that is not there, none inserted that is",
        _pairs,
    ),
    "count": _Kind(
        "a count table: rows with the number of causes that they gain or lose",
        "Blakeley, Larson, Tompa 1986; thesis, definition 3.6 and section 3.3",
        "as a count table, which has no zeros; a row in it may be in the view before and after",
        _count,
    ),
    "change table": _Kind(
        "change tables, one for each occurrence of a table that changes",
        "Gupta, Mumick 1999; thesis, chapter 5",
        "no: a group may be in it whose values stay as they are",
        _change_table,
    ),
    "qian-wiederhold": _Kind(
        "∇V and ΔV by rewriting with 16 equations, insertions first",
        "Qian, Wiederhold 1991, as Griffin, Libkin and Trickey retell it",
        "not always, although they claim it: proposition 2 of Griffin, Libkin and Trickey makes it so",
        _qian_wiederhold,
    ),
    "signed": _Kind(
        "one signed bag: deleted rows count negative; d R is the change of R, R₀ is R before and R after",
        "the rules of the engine, which adds stages with stored state",
        "once equal rows are added up: then no row is both deleted and inserted",
        _signed,
    ),
}


def check_form(name: str) -> None:
    """Refuse a form that there is not."""
    if name not in FORM_NAMES:
        listed = ", ".join(f'"{known}"' for known in FORM_NAMES)
        raise NablaError("NABLA_FORM", f"there is no form {name!r}", place="form=", remedy=f"Use one of {listed}.")


def derive_form(name: FormName, view: Node, changed: frozenset[str], tables: Tables | None = None) -> PaperForm:
    """The change of a view in one of the papers' forms, for a change of these tables. `tables` has all columns of tables."""
    check_form(name)
    kind = _KINDS[name]
    try:
        derived = kind.derive(view, changed, tables)
    except LookupError as reason:
        return PaperForm(name, kind.title, kind.source, kind.minimal, reason=str(reason))
    plans = [plan for plan in derived.results if plan is not None]
    return PaperForm(
        name,
        kind.title,
        kind.source,
        kind.minimal,
        derived.lines,
        operators=len(parts(*plans)),
        written_out=sum(map(_tree_size, plans)),
        view_operators=len(parts(view)),
        reads=_reads(plans),
    )


def _both(pair: Pair) -> tuple[Node | None, Node | None]:
    return pair.delete, pair.insert


def _tree_size(plan: Node) -> int:
    """The number of operators of a plan that is written out as a tree."""
    sizes: Memo[Node, int] = Memo()
    for node in parts(plan):
        sizes[node] = 1 + sum(sizes[part] for part in node.inputs)
    return sizes[plan]


_STATES = {"∇": "deleted", "Δ": "inserted"}
_TIMES = {At.OLD: "before", At.NEW: "after", At.DELTA: "change"}


def _reads(plans: list[Node]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for scan in (node for node in parts(*plans) if isinstance(node, Scan)):
        sign, table = (scan.table[0], scan.table[1:]) if scan.table[0] in _STATES else ("", scan.table)
        found.setdefault(table, {})[_STATES.get(sign) or _TIMES[scan.at]] = None
    return {table: tuple(sorted(states)) for table, states in sorted(found.items())}


def _canonical_lines(query: Node, changed: frozenset[str]) -> list[str]:
    """The canonical forms of a view with ΔJ and ∇J of each, and the count table (definition 3.6)."""
    below, on_top = count_algorithm.below_aggregation(query)
    forms = count_algorithm.canonical_union(below)
    numbered = [("" if len(forms) == 1 else str(number), form) for number, form in enumerate(forms, 1)]
    lines = []
    for suffix, form in numbered:
        lines += [
            f"J{suffix} = {' × '.join(_names(form))}",
            f"V{suffix} = {_projected(form, f'J{suffix}')}",
            f"ΔJ{suffix} = {_terms(form, changed, 'Δ', 'ᵐ')}",
            f"∇J{suffix} = {_terms(form, changed, '∇', '')}",
        ]
    tagged = [
        f"{_projected(form, f'{sign}J{suffix}')} × {{{tag}}}"
        for suffix, form in numbered
        for sign, tag in (("Δ", "1"), ("∇", "−1"))
    ]
    lines.append(f"c = σ[causes ≠ 0](π[A, sum(causes)]({' ∪ '.join(tagged)}))")
    if on_top is not None:
        keys = ", ".join(on_top.column(k).label for k in on_top.keys)
        calls = ", ".join(f"{call} → {call.column.label}" for call in on_top.calls)
        lines.append(f"on top: π[{keys}; {calls}, sum(causes)] of the rows that appear × {{1}} and disappear × {{−1}}")
    return lines


def _names(form: Canonical) -> list[str]:
    return [relation.table if isinstance(relation, Scan) else "constant" for relation in form.relations]


def _projected(form: Canonical, rows: str) -> str:
    attributes = ", ".join(a.column.label for a in form.attributes)
    condition = " and ".join(str(c) for c in form.condition)
    return f"π[{attributes}]({f'σ[{condition}]({rows})' if condition else rows})"


def _terms(form: Canonical, changed: frozenset[str], sign: str, others: str) -> str:
    names = _names(form)
    terms = []
    for i, changing in enumerate(names):
        if changing in changed:
            product = [sign + n if i == j else n + others * (n in changed) for j, n in enumerate(names)]
            terms.append(f"({' × '.join(product)})" if len(names) > 1 else product[0])
    return " ∪ ".join(terms) or "∅"
