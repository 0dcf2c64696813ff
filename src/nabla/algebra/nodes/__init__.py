"""The relational algebra: frozen nodes, checked at construction.

Every node denotes a *signed multiset*: a number of copies for each row, negative where a change takes copies away. For
tables and views all counts are positive and the operators are SQL's. A change (`Scan(at=DELTA)`) flows through the same
operators: weights pass through filters and projections, multiply in joins and add up in unions.
"""

from nabla.algebra.nodes.base import At, MalformedPlan, Node
from nabla.algebra.nodes.changes import WEIGHT, Consolidate, Negate, Unweigh, Weigh
from nabla.algebra.nodes.operators import (
    Aggregate,
    Constant,
    Distinct,
    ExceptAll,
    Filter,
    Generate,
    IntersectAll,
    Join,
    JoinKind,
    Opaque,
    Project,
    Recursion,
    Scan,
    TopK,
    UnionAll,
    Window,
)

__all__ = [
    "WEIGHT",
    "Aggregate",
    "At",
    "Consolidate",
    "Constant",
    "Distinct",
    "ExceptAll",
    "Filter",
    "Generate",
    "IntersectAll",
    "Join",
    "JoinKind",
    "MalformedPlan",
    "Negate",
    "Node",
    "Opaque",
    "Project",
    "Recursion",
    "Scan",
    "TopK",
    "UnionAll",
    "Unweigh",
    "Weigh",
    "Window",
]
