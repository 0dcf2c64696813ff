"""The methods that maintain operators which group rows, each with its law, its source and the state that it stores."""

from __future__ import annotations

from dataclasses import dataclass

from nabla.algebra.nodes import Aggregate, Distinct, Node, Recursion, TopK, Window


@dataclass(frozen=True)
class Method:
    """A method. `state` describes what it stores, `operators` are those that it maintains."""

    name: str
    law: str
    source: str
    state: str
    operators: tuple[type[Node], ...]


CHANGE_TABLE = Method(
    "change table",
    "□γ = γ±(dS); State₁ = State₀ ⊎ □γ",
    "thesis 5: change tables; Quass",
    "a row a group: its key, its number of rows and the partial results of its functions",
    (Aggregate, Distinct),
)
AFFECTED_GROUPS = Method(
    "affected groups",
    "dγ = γ(S₁ ⋉ G(dS)) − State₀ ⋉ G(dS)",
    "Quass; thesis 5: affected groups",
    "its own rows",
    (Aggregate,),
)
AFFECTED_PARTITIONS = Method(
    "affected partitions", "dω = ω(S₁ ⋉ P(dS)) − State₀ ⋉ P(dS)", "affected groups", "its own rows", (Window,)
)
ONE_PARTITION = Method(
    "affected partitions", "dτ = τ(S₁) − State₀", "affected groups, of which there is one", "its k rows", (TopK,)
)
FIRST_ROWS = Method(
    "first rows",
    "dτ = τ(State₀ + dS) − State₀ while enough rows are left, else τ(S₁) − State₀",
    "every row before the last stored one is stored or in the change",
    "its k rows",
    (TopK,),
)

LEVELS = Method(
    "levels",
    "L = Σ Lᵢ; dL₀ = dA, dLᵢ₊₁ = Q(Lᵢ)₁ − Q(Lᵢ)₀",
    "each level is a query over the one before, and changes as such",
    "its rows with their levels",
    (Recursion,),
)

METHODS = (CHANGE_TABLE, AFFECTED_GROUPS, AFFECTED_PARTITIONS, ONE_PARTITION, FIRST_ROWS, LEVELS)
GROUPING: tuple[type[Node], ...] = (Distinct, Aggregate, Window, TopK, Recursion)
"""The operators that become stages."""
