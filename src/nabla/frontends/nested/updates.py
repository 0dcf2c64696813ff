"""Updates r ⊕ δ and r ⊖ δ of a stored relation as flat changes of its rows.

Only tuples with keys in K = δ[α(R)] change: their rows are deleted, and their new versions inserted. δ may be over a prime
subschema; it is expanded first.
"""

from __future__ import annotations

from nabla.algebra.build import equal
from nabla.algebra.calls import Named
from nabla.algebra.expressions import quote
from nabla.algebra.names import inner_table
from nabla.algebra.nodes import Join, Node, Project
from nabla.frontends.nested.equations import UPDATES, Sign
from nabla.frontends.nested.language import nested
from nabla.frontends.nested.meaning import NestedSource
from nabla.frontends.nested.model import Relation, inside
from nabla.frontends.nested.plans import Planned, Planner
from nabla.frontends.nested.schema import Schema

TABLE, CHANGE = inner_table("table"), inner_table("change")
"""The names under which `updated_plan` scans the table and δ."""


def change(r: Relation, d: Relation, sign: Sign) -> tuple[Relation, Relation]:
    """(deleted, inserted): the old rows with keys in K that change, and their new versions."""
    old = inside(r, d)
    new = UPDATES[sign](old, d)
    return (
        {k: t for k, t in old.items() if k not in new or new[k] != t},
        {k: t for k, t in new.items() if k not in old or old[k] != t},
    )


def updated_plan(schema: Schema, update: Schema, sign: Sign) -> Node:
    """The new rows as algebra, for canonical r and δ: [r]∈K ± η(δ), with the table's attributes as columns."""
    planner = Planner({CHANGE: NestedSource(update)})
    d = planner.expanded(planner.plan(nested(CHANGE)), schema)
    r = planner.scan(TABLE, schema)
    keys = planner.expanded(planner.plan(nested(CHANGE).project()), Schema(schema.atoms))
    on = tuple(equal(r.columns[n].ref, keys.columns[n].ref, null_safe=True) for n in schema.key)
    near = Planned(Join(r.node, keys.node, on, "semi"), schema, r.columns)
    new = (planner.union if sign == "⊕" else planner.difference)(near, d)
    return Project(new.node, tuple(Named(new.columns[n], new.columns[n].ref) for n in schema.names))


def unnest_sql(table: str, schema: Schema) -> str:
    """The total unnest of a table as a query: the combinations of the tuples of its subrelations, NULLs for empty ones."""
    columns: list[str] = []
    views: list[str] = []
    flat = iter(schema.flat)

    def visit(level: Schema, prefix: str) -> None:
        columns.extend(f"{prefix}{quote(name)} AS {quote(next(flat))}" for name in level.key)
        for name, part in level.parts:
            item = f"part_{len(views) + 1}"
            views.append(f"LATERAL VIEW OUTER explode({prefix}{quote(name)}) AS {item}")
            visit(part, f"{item}.")

    visit(schema, f"{quote(table)}.")
    return "\n".join([f"SELECT {', '.join(columns)}", f"FROM {quote(table)}", *views])
