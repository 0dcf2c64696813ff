"""Edits that make an SQL text shorter, for the shrinker. Spark decides which of them are queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from sqlglot import ErrorLevel, exp, parse_one
from sqlglot.errors import SqlglotError

_CLAUSES = ("where", "having", "group", "order", "limit", "offset", "distinct", "laterals", "with_", "with", "windows")
_ATOMS = (exp.Column, exp.Literal, exp.Subquery, exp.Boolean, exp.Null)
_SIMPLE = ("NULL", "1", "true")

Edit = Callable[[exp.Expr], None]
"""Changes a node in place, in a copy of the tree."""


def names_in(sql: str) -> set[str]:
    """The tables and views that a text reads."""
    try:
        return {table.name for table in parse_one(sql, read="spark").find_all(exp.Table)}
    except SqlglotError:
        return set(sql.replace("(", " ").replace(")", " ").split())


def smaller_queries(sql: str) -> Iterator[str]:
    """Inner queries alone; clauses, items and joins left out; expressions replaced by their parts."""
    try:
        tree = parse_one(sql, read="spark")
    except SqlglotError:
        return
    for inner in tree.find_all(exp.Select, exp.SetOperation):
        if inner is not tree:
            yield _text(inner)
    for place, node in enumerate(tree.walk()):
        for edit in _edits(node):
            copy = tree.copy()
            with suppress(SqlglotError, ValueError):  # a tree that has no text
                edit(next(found for i, found in enumerate(copy.walk()) if i == place))
                yield _text(copy)


def _text(tree: exp.Expr) -> str:
    return tree.sql("spark", unsupported_level=ErrorLevel.IGNORE)


def _edits(node: exp.Expr) -> Iterator[Edit]:
    if isinstance(node, exp.SetOperation):
        yield partial(_replace_by_child, name="this")
        yield partial(_replace_by_child, name="expression")
    elif isinstance(node, exp.Select):
        yield from (partial(_remove, clause=clause) for clause in _CLAUSES if node.args.get(clause))
        for part in ("joins", "expressions"):
            items = node.args.get(part) or ()
            if part == "joins" or len(items) > 1:
                yield from (partial(_remove_item, part=part, place=place) for place in range(len(items)))
    elif isinstance(node, exp.Join):
        if node.args.get("side"):
            yield partial(_remove, clause="side")
    elif isinstance(node, exp.Condition) and not isinstance(
        node, exp.Column | exp.Literal | exp.Subquery | exp.Boolean
    ):
        for name, child in node.args.items():
            if isinstance(child, exp.Condition):
                yield partial(_replace_by_child, name=name)
        yield from (partial(_replace_by_text, text=text) for text in _SIMPLE)


def _remove(node: exp.Expr, clause: str) -> None:
    node.set(clause, None)


def _remove_item(node: exp.Expr, part: str, place: int) -> None:
    items = list(node.args[part])
    del items[place]
    node.set(part, items)


def _replace_by_child(node: exp.Expr, name: str) -> None:
    node.replace(node.args[name])


def _replace_by_text(node: exp.Expr, text: str) -> None:
    node.replace(parse_one(text, read="spark"))
