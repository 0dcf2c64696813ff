"""The SQL of a step for people: a common table expression an operator, columns under readable names.

The engine runs the same query; only names and layout differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from sqlglot.dialects import Spark
from sqlglot.tokens import TokenType

from nabla.algebra.clock import readable
from nabla.algebra.expressions import quote
from nabla.algebra.names import ColumnName, Mark, read_name
from nabla.algebra.nodes import Aggregate, Generate, Join, Node, Opaque, Scan, TopK, UnionAll, Window
from nabla.algebra.sql import to_sql
from nabla.explain.sql_layout import lay_out
from nabla.rewrite.join_order import broadcast_side

_STEMS: dict[type[Node], str] = {
    Join: "joined",
    Aggregate: "grouped",
    UnionAll: "together",
    Window: "windowed",
    TopK: "top",
    Generate: "unnested",
}
_ROLES = {
    Mark.DELETED: "_deleted",  # before the mark that it begins with
    Mark.CHANGE: "_change",
    Mark.NOW: "_now",
    Mark.OLD: "_old",
    Mark.KEY: "_key",
    Mark.LOST: "_lost",
    Mark.AGAIN: "_again",
}
_PLAIN = re.compile(r"[A-Za-z_]\w*")


def sql_text(node: Node, relation: Callable[[Scan], str]) -> str:
    """A step's query as SQL; `relation` gives the name of a scanned relation."""
    if isinstance(node, Opaque):
        return node.sql.strip()
    raw = to_sql(node, lambda scan: quote(relation(scan)), broadcast_side, lambda n: _STEMS.get(type(n), ""))
    names = _names(quoted_names(raw))
    return lay_out(readable(replace_names(raw, lambda name: _write_name(names.get(name, name)))))


# A string literal or a quoted name. Literals are matched, too, so that a backtick inside of one does not start a name.
_TOKEN = re.compile(r"""(?P<text>r?'(?:[^'\\]|\\.)*'|r?"(?:[^"\\]|\\.)*")|`(?P<name>(?:[^`]|``)+)`""", re.IGNORECASE)


def replace_names(sql: str, name: Callable[[str], str]) -> str:
    """The text with each name in backticks replaced by the text that `name` gives for it."""

    def plain(match: re.Match[str]) -> str:
        return match[0] if match["text"] else name(match["name"].replace("``", "`"))

    return _TOKEN.sub(plain, sql)


def quoted_names(sql: str) -> list[str]:
    """The names in backticks, each once, in the order of the text."""
    return list(dict.fromkeys(m["name"].replace("``", "`") for m in _TOKEN.finditer(sql) if m["name"]))


def _names(raw: list[str]) -> dict[str, str]:
    """Readable names of columns: the label, with its number if two columns have the same label."""
    read = {name: found for name in raw if (found := read_name(name))}
    plain = {name: found.label + _suffix(found) for name, found in read.items()}
    taken = Counter(label.casefold() for label in plain.values())
    numbered = {name: f"{found.label}_{found.number}{_suffix(found)}" for name, found in read.items()}
    return {n: numbered[n] if taken[label.casefold()] > 1 else label for n, label in plain.items()}


def _suffix(name: ColumnName) -> str:
    """The end of a readable name: the part of an aggregate that the column is, and its role."""
    roles = name.marks
    for mark, word in _ROLES.items():
        roles = roles.replace(mark, word)
    return (f"_{name.part}" if name.part else "") + roles


@lru_cache(4096)
def _write_name(name: str) -> str:
    """A name in SQL, in backticks only if it needs them, as a keyword does."""
    if _PLAIN.fullmatch(name):
        tokens = Spark().tokenize(name)
        if len(tokens) == 1 and tokens[0].token_type is TokenType.VAR:
            return name
    return quote(name)
