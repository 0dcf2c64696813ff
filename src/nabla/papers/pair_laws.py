"""The registry of pair rules, and the terms of the rules: operands that change and operators to apply to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nabla._cached import cached_property
from nabla.algebra.memo import innermost_first
from nabla.algebra.nodes import Distinct, Node
from nabla.papers.sets import EMPTY, RowSet


@dataclass(frozen=True, eq=False)
class Operand:
    """An operand S of a rule: S, ∇S and ΔS, and the sets that follow from them."""

    old: RowSet
    deleted: RowSet = EMPTY
    inserted: RowSet = EMPTY

    @cached_property
    def kept(self) -> RowSet:
        """S − ∇S"""
        return self.old - self.deleted

    @cached_property
    def new(self) -> RowSet:
        """Sᵐ = (S − ∇S) ∪ ΔS"""
        return self.kept | self.inserted


@dataclass(frozen=True, eq=False)
class BaseRelation(Operand):
    """A table that is read after the change, so that Sᵐ is its present state."""

    now: RowSet = EMPTY

    @cached_property
    def new(self) -> RowSet:
        return self.now


@dataclass(frozen=True, eq=False)
class ViewOperator:
    """The operator of a view, to be applied to other operands: to none if one of them is the empty set."""

    node: Node

    def __call__(self, *operands: RowSet) -> RowSet:
        plans = [operand.plan for operand in operands if operand.plan is not None]
        if len(plans) < len(operands):
            return EMPTY
        if isinstance(self.node, Distinct):
            return RowSet(Distinct(self.node.input.with_inputs(*plans)))
        return RowSet(self.node.with_inputs(*plans))

    @property
    def operands(self) -> tuple[Node, ...]:
        """Union and projection of sets are a Distinct over the bag's operator: their operands are below that."""
        return self.node.input.inputs if isinstance(self.node, Distinct) else self.node.inputs


def operators(view: Node) -> list[Node]:
    """The operators of a view in set form, operands first, each once."""
    return innermost_first((view,), lambda q: ViewOperator(q).operands)


Derive = Callable[..., tuple[RowSet, RowSet]]


@dataclass(frozen=True)
class PairRule:
    """A rule, which is a row of the papers' tables."""

    name: str
    query: str
    delete: str
    insert: str
    source: str
    applies: Callable[[Node], bool]
    derive: Derive


PAIR_RULES: dict[str, PairRule] = {}


def pair_rule(
    query: str, *, delete: str, insert: str, source: str, of: Callable[[Node], bool]
) -> Callable[[Derive], Derive]:
    """Register a function (q, s, t) -> (∇Q, ΔQ) for the operators that `of` accepts."""

    def register(derive: Derive) -> Derive:
        PAIR_RULES[derive.__name__] = PairRule(derive.__name__, query, delete, insert, source, of, derive)
        return derive

    return register


def pair_rule_of(node: Node) -> PairRule:
    for rule in PAIR_RULES.values():
        if rule.applies(node):
            return rule
    raise LookupError(f"{type(node).__name__} has no pair rule: is the view in set form?")
