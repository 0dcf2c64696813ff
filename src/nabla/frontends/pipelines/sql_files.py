"""The SQL files of a pipelines project. A file has many statements, which are split by tokens, never by text search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType

from nabla.errors import NablaError

Kind = Literal["materialized_view", "temporary_view", "rules"]

STREAMING_REMEDY = (
    "Nabla maintains materialized views; write the query as CREATE MATERIALIZED VIEW over tables of the lake."
)
ALLOWED = "CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, SET and USE"


@dataclass(frozen=True)
class Create:
    """CREATE MATERIALIZED VIEW or CREATE [TEMPORARY] VIEW. `columns` is the text in the parentheses after the name."""

    kind: Kind
    name: tuple[str, ...]
    query: str
    columns: str
    comment: str | None
    line: int


@dataclass(frozen=True)
class Set:
    """SET key = value: a setting for the statements after it."""

    key: str
    value: str
    line: int


@dataclass(frozen=True)
class Use:
    """USE [CATALOG | DATABASE | SCHEMA] name: the place of unqualified names after it."""

    what: Literal["catalog", "database"]
    name: tuple[str, ...]
    line: int


def read_statements(text: str, file: str) -> Iterator[Create | Set | Use]:
    """The statements of a file, in order."""
    try:
        tokens = Spark().tokenize(text)
    except TokenError as error:
        raise NablaError(
            "NABLA_SQL_SYNTAX", f"the file is not SQL: {error}", place=file, remedy="Close the open quote or comment."
        ) from error
    for statement in _split(tokens):
        yield _StatementReader(statement, text, file).statement()


def without_qualifier(query: str, qualifiers: Sequence[tuple[str, ...]]) -> str:
    """The query with `db.orders` as `orders`, if `db` is one of the qualifiers of the project's own datasets."""
    try:
        tree = sqlglot.parse_one(query, dialect="spark")
    except SqlglotError:
        return query  # Spark will report the error of the query
    known = {tuple(part.lower() for part in qualifier) for qualifier in qualifiers}
    cuts = []
    for table in tree.find_all(exp.Table):
        parts = table.parts
        if len(parts) > 1 and tuple(part.name.lower() for part in parts[:-1]) in known:
            cuts.append((parts[0].meta["start"], parts[-1].meta["start"]))
    for start, end in sorted(cuts, reverse=True):
        query = query[:start] + query[end:]
    return query


def column_names(columns: str) -> Iterator[str]:
    """The names in a view's column list, such as `a, b COMMENT 'x, y'`, quoted."""
    expected = True
    for token in Spark().tokenize(columns):
        if expected:
            yield f"`{token.text.replace('`', '``')}`"
        expected = token.token_type == TokenType.COMMA


def _split(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    statement: list[Token] = []
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            statement.append(token)
        elif statement:
            yield statement
            statement = []
    if statement:
        yield statement


class _StatementReader:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, tokens: list[Token], text: str, file: str) -> None:
        self.tokens = tokens
        self.text = text
        self.file = file
        self.at = 0
        self.line = tokens[0].line

    def statement(self) -> Create | Set | Use:
        if self.skip("SET"):
            return self.set()
        if self.skip("USE"):
            return self.use()
        if self.skip("CREATE"):
            return self.create()
        if self.peek() == "INSERT":
            raise self.streaming("INSERT INTO adds a flow to a streaming table")
        raise self.wrong(f"{self.peek()} is not a statement of a pipeline")

    def create(self) -> Create:
        self.skip("OR", "REPLACE")
        self.skip("GLOBAL")
        temporary = self.skip("TEMPORARY") or self.skip("TEMP")
        materialized = self.skip("MATERIALIZED")
        if self.peek() in ("STREAMING", "FLOW"):
            raise self.streaming(f"CREATE {self.peek()} defines a stream")
        if not self.skip("VIEW") or (temporary and materialized):
            raise self.wrong(f"CREATE {self.peek()} is not a statement of a pipeline")
        self.skip("IF", "NOT", "EXISTS")
        name = self.name()
        columns = self.parenthesized()
        comment = self.clauses(name)
        query = self.rest(f'the query of "{".".join(name)}"')
        return Create(
            "materialized_view" if materialized else "temporary_view", name, query, columns, comment, self.line
        )

    def clauses(self, name: tuple[str, ...]) -> str | None:
        """Read the clauses between the name and AS. Only the comment matters to a view."""
        comment = None
        while self.at < len(self.tokens):
            if self.skip("AS"):
                return comment
            if self.skip("COMMENT") and self.at < len(self.tokens):
                comment = self.tokens[self.at].text
            if not self.parenthesized():
                self.at += 1
        raise self.wrong(f'"{".".join(name)}" has no query: AS is missing')

    def set(self) -> Set:
        raw = self.rest("the setting")
        key, equals, value = raw.partition("=")
        if not equals:
            raise self.wrong(f"SET {raw} gives no value")
        return Set(key.strip().strip("`"), value.strip().strip("'\""), self.line)

    def use(self) -> Use:
        catalog = self.skip("CATALOG")
        if not catalog:
            _ = self.skip("DATABASE") or self.skip("SCHEMA") or self.skip("NAMESPACE")
        return Use("catalog" if catalog else "database", self.name(), self.line)

    def name(self) -> tuple[str, ...]:
        parts = [self.next("a name").text]
        while self.skip("."):
            parts.append(self.next("a name").text)
        return tuple(parts)

    def parenthesized(self) -> str:
        """The text inside the parentheses that open here, or nothing where none do."""
        if self.peek() != "(":
            return ""
        depth, start = 0, self.at
        while True:
            token = self.next("a closing parenthesis")
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
            if depth == 0:
                return self.text[self.tokens[start].end + 1 : token.start].strip()

    def rest(self, what: str) -> str:
        first = self.next(what)
        self._refuse_streams()
        return self.text[first.start : self.tokens[-1].end + 1]

    def _refuse_streams(self) -> None:
        tables = {TokenType.FROM, TokenType.JOIN}
        names = {TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN}
        for before, word, after in zip(
            self.tokens[self.at :], self.tokens[self.at + 1 :], self.tokens[self.at + 2 :], strict=False
        ):
            is_source = before.token_type in tables and after.token_type in names
            if is_source and word.token_type == TokenType.VAR and word.text.upper() == "STREAM":
                self.line = word.line
                raise self.streaming("STREAM reads a table as a stream")

    def peek(self) -> str:
        if self.at >= len(self.tokens):
            return "nothing"
        token = self.tokens[self.at]
        return token.text if token.token_type == TokenType.IDENTIFIER else token.text.upper()

    def next(self, what: str) -> Token:
        if self.at >= len(self.tokens):
            raise self.wrong(f"the statement ends where {what} is expected")
        self.at += 1
        return self.tokens[self.at - 1]

    def skip(self, *words: str) -> bool:
        """Pass over these words if they come next."""
        upcoming = self.tokens[self.at : self.at + len(words)]
        quoted = {TokenType.IDENTIFIER, TokenType.STRING}
        found = tuple(token.text.upper() for token in upcoming if token.token_type not in quoted)
        if found == words:
            self.at += len(words)
            return True
        return False

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"

    def streaming(self, what: str) -> NablaError:
        return NablaError("NABLA_STREAMING", what, place=self.place, remedy=STREAMING_REMEDY)

    def wrong(self, what: str) -> NablaError:
        return NablaError("NABLA_SQL_SYNTAX", what, place=self.place, remedy=f"A pipeline's SQL file holds {ALLOWED}.")
