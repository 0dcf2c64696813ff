"""The SQL of a step laid out for people: a common table expression an operator, columns under readable names.

It means what the engine runs; only names and layout differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Spark
from sqlglot.tokens import TokenType

from nabla.algebra.expressions import quote, quoted_names, renamed
from nabla.algebra.nodes import Aggregate, Generate, Join, Node, Scan, TopK, UnionAll, Window
from nabla.algebra.sql import to_sql
from nabla.calculus.outwards import broadcast_side

_STEMS: dict[type[Node], str] = {
    Join: "joined",
    Aggregate: "grouped",
    UnionAll: "together",
    Window: "windowed",
    TopK: "top",
    Generate: "unnested",
}
_NAME = re.compile(r"(?P<label>.*)#(?P<number>\d*)(?P<rest>.*)", re.DOTALL)
_MARKS = (("~gone", "_deleted"), ("~", "_change"), ("=", "_now"), ("'", "_old"), ("?", "_key"), ("!", "_lost"))
WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def sql_text(node: Node, relation: Callable[[Scan], str]) -> str:
    """`relation` says what a scanned relation is called."""
    stems = {id(n): _STEMS[type(n)] for n in node.walk() if type(n) in _STEMS}
    raw = to_sql(node, lambda scan: quote(relation(scan)), broadcast_side, lambda n: stems.get(id(n), ""))
    relations = {relation(n) for n in node.walk() if isinstance(n, Scan)}
    tree = sqlglot.parse_one(renamed(raw, _names(quoted_names(raw), relations)), read="spark")
    for identifier in tree.find_all(exp.Identifier):
        identifier.set("quoted", not _may_stand_bare(identifier.name))
    return _filled(tree.transform(_simpler).sql(dialect="spark", pretty=True, max_text_width=WIDTH))


def _simpler(node: exp.Expr) -> exp.Expr:
    """Without parentheses that change nothing, and without `x AS x`."""
    if isinstance(node, exp.Paren):
        inner = node.unnest()
        simple = isinstance(inner, exp.Predicate) and isinstance(node.parent, exp.And)
        return inner if simple or isinstance(node.parent, exp.Where | exp.Join) else exp.Paren(this=inner)
    if isinstance(node, exp.Alias) and isinstance(node.this, exp.Column) and node.alias == node.this.name:
        return node if node.this.table else node.this
    return node


def _filled(text: str) -> str:
    """Items of a list that stand on a line each share lines as far as these reach."""
    lines: list[str] = []
    for line in text.splitlines():
        last = lines[-1] if lines else ""
        indent = len(line) - len(line.lstrip())
        together = last.endswith(",") and len(last) - len(last.lstrip()) == indent and _closed(last) and _closed(line)
        if together and len(last) + 1 + len(line.strip()) <= WIDTH:
            lines[-1] = f"{last} {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _closed(line: str) -> bool:
    return line.count("(") == line.count(")")


def _names(raw: list[str], relations: set[str]) -> dict[str, str]:
    """The label where it is the only one of its kind, else with its number."""
    made = (name for name in raw if name not in relations and ("#" in name or name.startswith("@")))
    wanted = {name: _readable(name, False) for name in made}
    taken = [w.casefold() for w in wanted.values()]
    return {
        name: _readable(name, True) if taken.count(label.casefold()) > 1 else label for name, label in wanted.items()
    }


def _readable(name: str, numbered: bool) -> str:
    match = _NAME.fullmatch(name)
    label, number, rest = (match["label"], match["number"], match["rest"]) if match else (name, "", "")
    for mark, word in _MARKS:
        rest, label = rest.replace(mark, word), label if match else label.replace(mark, word)
    rest = rest.replace("+", "_again").replace(".", "_")
    label = label if match else label.replace("@", "stage").replace(".", "_")
    return label + (f"_{number}" if numbered and number else "") + rest


def _may_stand_bare(name: str) -> bool:
    if not _PLAIN.fullmatch(name):
        return False
    tokens = Spark().tokenize(name)
    return len(tokens) == 1 and tokens[0].token_type is TokenType.VAR
