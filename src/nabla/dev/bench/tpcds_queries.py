"""The 99 queries of TPC-DS, four of them in two variants, in Spark's SQL.

DuckDB's extension has one variant of each query. The other variant of a query begins with the same common table expressions;
only what follows these is in `queries/tpcds`.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

from sqlglot import exp, parse_one

VARIANTS: dict[int, tuple[str, str]] = {14: ("a", "b"), 23: ("b", "a"), 24: ("a", "b"), 39: ("a", "b")}
"""The variant that the extension has, and the other one."""
NAMES = tuple(f"q{number:02d}{variant}" for number in range(1, 100) for variant in sorted(VARIANTS.get(number, ("",))))


def query(name: str, data: Path) -> str:
    """A query by its name, such as q01 or q14b, from a folder of generated data."""
    number, variant = int(name[1:3]), name[3:]
    text: str = json.loads((data / "queries.json").read_text(encoding="utf-8"))[str(number)]
    tree = parse_one(text, read="duckdb")
    if number in VARIANTS and variant != VARIANTS[number][0]:
        written = files("nabla.dev.bench").joinpath(f"queries/tpcds/{name}.sql").read_text(encoding="utf-8")
        other = parse_one(written, read="spark")
        other.set("with_", tree.args["with_"])
        tree = other
    return _name_columns(tree).sql("spark", pretty=True)


def _name_columns(tree: exp.Expr) -> exp.Expr:
    """The query with columns that a table can have: each with a name of its own, of letters and digits."""
    for identifier in tree.find_all(exp.Identifier):
        identifier.set("this", re.sub(r"\W+", "_", identifier.name))
    outermost = tree
    while isinstance(outermost, exp.SetOperation | exp.Subquery):
        outermost = outermost.this
    taken: set[str] = set()
    for place, column in enumerate(outermost.expressions, 1):
        name = column.unnest().alias_or_name  # SELECT DISTINCT (a) is a column called a
        if not column.is_star and (not name or name in taken):
            name = f"{name or 'column'}_{place}"
            column.replace(exp.alias_(column.unalias(), name))
        taken.add(name)
    return tree
