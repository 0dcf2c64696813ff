"""The registry of laws: a law says for an operator how its change follows from the changes of its inputs.

A law is data (the equation and its source in the literature) with its transcription beside it. The table in the docs, `explain`
and the property tests are all made from this registry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nabla.algebra.nodes import Node

if TYPE_CHECKING:
    from nabla.calculus.delta import Derivation

Derive = Callable[..., "Node | None"]


@dataclass(frozen=True)
class Law:
    """The law of an operator. `sql` shows the operator as a query writes it."""

    name: str
    operator: type[Node]
    law: str
    source: str
    sql: str
    derive: Derive


LAWS: dict[str, Law] = {}
_BY_OPERATOR: dict[type[Node], list[tuple[Law, Callable[[Node], bool]]]] = {}


def rule(
    operator: type[Node], law: str, source: str, sql: str, when: Callable[..., bool] = lambda q: True
) -> Callable[[Derive], Derive]:
    """Register a function (q, c) -> d(q) as the law of an operator, or of its forms that `when` accepts."""

    def register(derive: Derive) -> Derive:
        entry = Law(derive.__name__, operator, law, source, sql, derive)
        if entry.name in LAWS:
            raise ValueError(f"two laws are called {entry.name}")
        LAWS[entry.name] = entry
        _BY_OPERATOR.setdefault(operator, []).append((entry, when))
        return derive

    return register


def law_of(node: Node) -> Law | None:
    """The law that applies to this node, or None where there is none."""
    for entry, applies in _BY_OPERATOR.get(type(node), ()):
        if applies(node):
            return entry
    return None


def derive(node: Node, derivation: Derivation) -> Node | None:
    """The change of a node by its law."""
    entry = law_of(node)
    if entry is None:
        raise LookupError(f"{type(node).__name__} has no law")
    return entry.derive(node, derivation)
