"""Whether two definitions of a view mean the same: their algebra is compared, not their text."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from sqlglot import tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from nabla.algebra.expressions import Expr
from nabla.algebra.nodes import Opaque
from nabla.algebra.shape import Shape
from nabla.answer.canonical import canonical, conjuncts_of
from nabla.lake.objects.view import View
from nabla.lake.plan.python_code import code_of

_AS_WRITTEN = {TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.BYTE_STRING}
"""Tokens in which upper and lower case differ."""


def means_same(one: View, other: View) -> bool:
    """Whether two views have the same rows and columns, whatever tables hold. Nothing but spelling may differ between them:
    white space, comments, the names of inner columns, the order of conditions."""
    return _meaning(one) == _meaning(other)


def differences(old: View, new: View) -> str:
    """The difference between two definitions, in words."""
    said = [
        *_listed("no longer has the columns", [c for c in old.outputs if c not in new.outputs]),
        *_listed("has the new columns", [c for c in new.outputs if c not in old.outputs]),
        *_listed("has other types in", _retyped(old, new)),
        *_listed("no longer reads", [s for s in old.sources if s not in new.sources]),
        *_listed("now reads", [s for s in new.sources if s not in old.sources]),
    ]
    if not said and old.outputs != new.outputs:
        said = ["its columns have another order"]
    return "; ".join(said) or "its query means something else"


def _retyped(old: View, new: View) -> list[str]:
    before = {name: column.type for name, column in zip(old.outputs, old.plan.columns, strict=True)}
    after = {name: column.type for name, column in zip(new.outputs, new.plan.columns, strict=True)}
    return [name for name in before if name in after and before[name] != after[name]]


def _listed(words: str, names: list[str]) -> Iterator[str]:
    if names:
        yield f"{words} {', '.join(names)}"


def _meaning(view: View) -> Hashable:
    rules = (tuple(map(str, view.rules.program.clauses)), view.rules.program.columns(view.name)) if view.rules else None
    functions = {function.name: code_of(function) for function in view.functions}
    types = tuple(column.type for column in view.plan.columns)
    return view.outputs, types, rules, tuple(sorted(functions.values())), _Meaning(functions).of(view.plan)


class _Meaning(Shape):
    """The shape of a query in which conditions have one order, Python functions are what they do, and a query that only Spark
    understands is its words."""

    def __init__(self, functions: Mapping[str, str]) -> None:
        super().__init__()
        self._functions = functions

    def of(self, value: object) -> Hashable:
        match value:
            case Opaque():
                return "opaque", words_of(value.sql), value.tables, tuple((c.type, c.nullable) for c in value.output)
            case Expr():
                numbered = self.number(value)
                parts = sorted(self._spell(canonical(part).sql) for part in conjuncts_of(numbered))
                return tuple(parts), value.type
        return super().of(value)

    def _spell(self, text: str) -> str:
        """The text with what Python functions do for their names, which are made from their code."""
        for name, code in self._functions.items():
            text = text.replace(name, code)
        return text


def words_of(sql: str) -> tuple[tuple[str, str], ...]:
    """The words of a query, without white space and comments. The case of letters counts in texts only."""
    try:
        tokens = tokenize(sql, read="spark")
    except SqlglotError:
        return (("text", " ".join(sql.split())),)
    return tuple((t.token_type.name, t.text if t.token_type in _AS_WRITTEN else t.text.lower()) for t in tokens)
