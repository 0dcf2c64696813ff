"""Laying out SQL that Nabla printed: clauses on lines of their own, subqueries indented, expressions as they are.

sqlglot parses the query and prints its clauses. Scalar expressions are copied from the text, letter by letter: sqlglot
only has to find where they end, so that it cannot replace one of Spark's functions by another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokens import Token, TokenType

WIDTH = 100
LONGEST = 100_000
"""Characters of a query that is laid out: some thousand lines. A longer one takes seconds, and has a line for each subquery."""
_PLAIN = {"expressions", "hint", "kind", "from_"}
"""The parts of a query that may stand on one line in parentheses."""

_WORDS = {TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.AND, TokenType.OR, TokenType.PLUS}
"""A long expression is cut before these."""

_BEFORE_ARGUMENTS = " " * len("LATERAL VIEW stack() g AS sign,")


def lay_out(sql: str) -> str:
    """The same query on several lines; a text that sqlglot cannot parse, or that is very long, stays as it is."""
    if len(sql) > LONGEST:
        return sql.strip()
    try:
        (query,) = _Parser(dialect=Spark()).parse(Spark().tokenize(sql), sql)
    except SqlglotError:
        return sql.strip()
    assert query is not None
    return _Generator(dialect=Spark()).generate(query, copy=False)


class _Parser(SparkParser):
    """Parses a query down to its clauses, items and conjuncts, and no further."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {}
    _inside = False

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """An expression without AND and OR, as its text. Expressions inside of it are parsed as usual and forgotten."""
        if self._inside:
            return super()._parse_equality(parse_is)
        index, start = self._index, self._curr
        self._inside = True
        try:
            parsed = super()._parse_equality(parse_is)
        finally:
            self._inside = False
        if isinstance(parsed, exp.Query | exp.Paren):
            self._retreat(index)
            return super()._parse_equality(parse_is) if isinstance(parsed, exp.Query) else self._parse_parenthesis()
        return None if parsed is None else exp.Var(this=self._find_sql(start, self._prev))

    def _parse_parenthesis(self) -> exp.Expr | None:
        """Parentheses stay where they hold an AND or OR together."""
        self._match_l_paren()
        inner = self._parse_disjunction()
        self._match_r_paren()
        return exp.Paren(this=inner) if isinstance(inner, exp.Connector) else inner


class _Generator(SparkGenerator):
    """Fills lines with the items of a list, and writes a short subquery on one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "pretty": True, "normalize_functions": False})
        self._depth = 0

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        self.pretty = False
        try:
            yield
        finally:
            self.pretty = True

    @property
    def _room(self) -> int:
        return WIDTH - self.pad * self._depth

    def too_wide(self, args: Iterable[Any]) -> bool:
        return sum(len(arg) + 2 for arg in args) > self._room - 2 * self.pad

    def wrap(self, expression: exp.Expr | str) -> str:
        if self.pretty and isinstance(expression, exp.Expr) and _is_plain(expression.this):
            with self._one_line():
                text = f"({self.sql(expression, 'this')})"
            if len(text) <= self._room - len("LEFT ANTI JOIN  AS r"):
                return text
        self._depth += 1
        text = super().wrap(expression)
        self._depth -= 1
        return text

    def var_sql(self, expression: exp.Var) -> str:
        return str(expression.this).replace("\n", self.SENTINEL_LINE_BREAK)

    def alias_sql(self, expression: exp.Alias) -> str:
        """`x AS x` is written as `x`."""
        value, alias = self.sql(expression, "this"), self.sql(expression, "alias")
        return value if value == alias else f"{value} AS {alias}"

    def select_sql(self, expression: exp.Select) -> str:
        head = self.sql(expression, "hint") + (" DISTINCT" if expression.args.get("distinct") else "")
        items = self._fill(f"SELECT{head} ", expression.expressions)
        return self.prepend_ctes(expression, self.query_modifiers(expression, items, self.sql(expression, "from_")))

    def op_expressions(self, op: str, expression: exp.Expr, flat: bool = False) -> str:
        if flat:
            return super().op_expressions(op, expression, flat)
        return self._fill(self.seg(op) + " ", expression.expressions)

    def format_args(self, *args: Any, sep: str = ", ") -> str:
        if sep != ", ":
            return super().format_args(*args, sep=sep)
        return self._fill(_BEFORE_ARGUMENTS, [arg for arg in args if arg is not None]).removeprefix(_BEFORE_ARGUMENTS)

    def _fill(self, head: str, items: Collection[str | exp.Expr]) -> str:
        """As many items on a line as fit; the first line begins with `head`."""
        texts = [self.sql(item) for item in items]
        whole = [text + "," for text in texts[:-1]] + texts[-1:]
        pieces = [piece for text in whole for piece in self._pieces(text)] if self.pretty else whole
        lines = [head + "".join(pieces[:1])]
        for piece in pieces[1:]:
            if self.pretty and len(lines[-1].rpartition("\n")[2]) + 1 + len(piece) > self._room:
                lines.append(" " * self.pad + piece)
            else:
                lines[-1] += " " + piece
        return "\n".join(lines)

    def _pieces(self, text: str) -> list[str]:
        """A long item in pieces: cut after the arguments of a call, and where these are long before their words."""
        room = self._room - self.pad
        if len(text) <= room:
            return [text]
        arguments = _cut(text, lambda token, depth: token.token_type is TokenType.COMMA and depth == 1)
        return [p for a in arguments for p in (_cut(a, lambda t, _: t.token_type in _WORDS) if len(a) > room else [a])]

    def paren_sql(self, expression: exp.Paren) -> str:
        """A condition that is all of a clause, or an AND within an AND, needs no parentheses."""
        inner = self.sql(expression, "this")
        whole = isinstance(expression.parent, exp.Where | exp.Having | exp.Join)
        nested = isinstance(expression.parent, exp.And) and isinstance(expression.this, exp.And)
        return inner if whole or nested else f"({inner})"

    def where_sql(self, expression: exp.Where) -> str:
        return self._condition("WHERE", expression)

    def having_sql(self, expression: exp.Having) -> str:
        return self._condition("HAVING", expression)

    def _condition(self, word: str, expression: exp.Expr) -> str:
        return f"{self.seg(word)} {self.indent(self.sql(expression, 'this'), skip_first=True)}"

    def with_sql(self, expression: exp.With) -> str:
        recursive = "RECURSIVE " if expression.args.get("recursive") else ""
        return f"WITH {recursive}" + f",{self.sep()}".join(self.sql(table) for table in expression.expressions)

    def lateral_sql(self, expression: exp.Lateral) -> str:
        alias = expression.args["alias"]
        outer = "OUTER " if expression.args.get("outer") else ""
        view = self.seg(f"LATERAL VIEW {outer}{self.sql(expression, 'this')}")
        between = "\n" + " " * self.pad if "\n" in view[1:] else " "
        return self._fill(f"{view}{between}{alias.name}{' AS ' if alias.columns else ''}", alias.columns)


def _is_plain(query: exp.Expr) -> bool:
    """Whether a query, and every query in its FROM, is a SELECT with nothing but a FROM."""
    return not query.find(exp.SetOperation) and all(
        {name for name, value in select.args.items() if value} <= _PLAIN for select in query.find_all(exp.Select)
    )


def _cut(text: str, at: Callable[[Token, int], bool]) -> list[str]:
    """Cut after the commas and before the words that `at` tells, given how many parentheses are open."""
    cuts, depth = [0], 0
    for token in Spark().tokenize(text):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if at(token, depth):
            cuts.append(token.end + 1 if token.token_type is TokenType.COMMA else token.start)
    pieces = (text[start:end].strip() for start, end in zip(cuts, [*cuts[1:], len(text)], strict=True))
    return [piece for piece in pieces if piece]
