"""The SQL files of a pipelines project. A file has many statements, which are split by tokens, never by text search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from nabla.errors import NablaError
from nabla.frontends.pipelines.elements import ChangeCapture, Expectation
from nabla.frontends.pipelines.sql_clauses import Clauses, Columns, read_capture, read_columns
from nabla.frontends.pipelines.tokens import TokenReader, split_at

ALLOWED = (
    "CREATE MATERIALIZED VIEW, CREATE TEMPORARY VIEW, CREATE STREAMING TABLE, CREATE FLOW … AS INSERT INTO or AUTO CDC INTO, "
    "SET and USE"
)


@dataclass(frozen=True)
class Create:
    """CREATE of a materialized view, a temporary view or a streaming table. A streaming table may have no query, or one whose
    rows are events (`capture`)."""

    kind: Literal["materialized_view", "temporary_view", "streaming_table"]
    name: tuple[str, ...]
    query: str
    columns: str
    comment: str | None
    line: int
    expectations: tuple[Expectation, ...] = ()
    cluster_by: tuple[str, ...] = ()
    capture: ChangeCapture | None = None


@dataclass(frozen=True)
class CreateFlow:
    """CREATE FLOW, or one of the statements that add a flow without naming it."""

    name: tuple[str, ...]
    target: tuple[str, ...]
    query: str
    line: int
    once: bool = False
    capture: ChangeCapture | None = None


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


Statement = Create | CreateFlow | Set | Use


def read_statements(text: str, file: str) -> Iterator[Statement]:
    """The statements of a file, in order."""
    try:
        tokens = Spark().tokenize(text)
    except TokenError as error:
        raise NablaError(
            "NABLA_SQL_SYNTAX", f"the file is not SQL: {error}", place=file, remedy="Close the open quote or comment."
        ) from error
    for statement in split_at(tokens, TokenType.SEMICOLON):
        yield _StatementReader(statement, text, file).statement()


def column_names(columns: str) -> Iterator[str]:
    """The names in a view's column list, such as `a, b COMMENT 'x, y'`, quoted."""
    for item in split_at(Spark().tokenize(columns), TokenType.COMMA):
        yield f"`{item[0].text.replace('`', '``')}`"


class _StatementReader(TokenReader):
    """Reads the tokens of one statement from left to right."""

    def __init__(self, tokens: Sequence[Token], text: str, file: str) -> None:
        super().__init__(tokens, text, file, f"A pipeline's SQL file holds {ALLOWED}.")

    def statement(self) -> Statement:
        if self.skip("SET"):
            return self.set()
        if self.skip("USE"):
            return self.use()
        if self.skip("CREATE"):
            return self.create()
        if self.skip("INSERT", "INTO"):
            return self.insert(())
        if self.skip("APPLY", "CHANGES", "INTO") or self.skip("AUTO", "CDC", "INTO"):
            return self.auto_cdc(())
        raise self.wrong(f"{self.peek()} is not a statement of a pipeline")

    def create(self) -> Create | CreateFlow:
        _ = self.skip("OR", "REPLACE") or self.skip("OR", "REFRESH")
        _ = self.skip("GLOBAL") or self.skip("PRIVATE")
        temporary = self.skip("TEMPORARY") or self.skip("TEMP") or self.skip("LIVE", "VIEW", ahead=True)
        self.skip("LIVE", ahead=False)
        if self.skip("FLOW"):
            return self.flow()
        streaming = self.skip("STREAMING")
        self.skip("LIVE", ahead=False)
        materialized = self.skip("MATERIALIZED")
        if streaming or (not temporary and not materialized and self.peek() == "TABLE"):
            if not self.skip("TABLE"):
                raise self.wrong(f"CREATE STREAMING {self.peek()} is not a statement of a pipeline")
            return self.dataset("streaming_table" if streaming else "materialized_view")
        if not self.skip("VIEW") or (temporary and materialized):
            raise self.wrong(f"CREATE {self.peek()} is not a statement of a pipeline")
        return self.dataset("materialized_view" if materialized else "temporary_view")

    def dataset(self, kind: Literal["materialized_view", "temporary_view", "streaming_table"]) -> Create:
        self.skip("IF", "NOT", "EXISTS")
        name = self.name()
        shown = ".".join(name)
        columns = read_columns(self.parenthesized(), self)
        clauses = self.clauses(name, may_end=kind == "streaming_table")
        query, capture = "", None
        if clauses.ended_by == "FLOW":
            self.expect("AUTO", "CDC")
            query, capture = self.capture(f'the source of "{shown}"')
        elif clauses.ended_by == "AS":
            query = self.rest(f'the query of "{shown}"')
        return self._created(kind, name, query, columns, clauses, capture)

    def _created(
        self,
        kind: Literal["materialized_view", "temporary_view", "streaming_table"],
        name: tuple[str, ...],
        query: str,
        columns: Columns,
        clauses: Clauses,
        capture: ChangeCapture | None,
    ) -> Create:
        expectations = (*columns.expectations, *clauses.expectations)
        return Create(
            kind, name, query, columns.text, clauses.comment, self.line, expectations, clauses.cluster_by, capture
        )

    def flow(self) -> CreateFlow:
        self.skip("IF", "NOT", "EXISTS")
        name = self.name()
        if self.skip("COMMENT"):
            self.next("a comment")
        self.expect("AS")
        if self.skip("INSERT", "INTO"):
            return self.insert(name)
        if self.skip("AUTO", "CDC", "INTO") or self.skip("APPLY", "CHANGES", "INTO"):
            return self.auto_cdc(name)
        raise self.wrong(f"a flow is INSERT INTO or AUTO CDC INTO, and not {self.peek()}")

    def insert(self, name: tuple[str, ...]) -> CreateFlow:
        once = self.skip("ONCE")
        self.skip("TABLE")
        target = self.name()
        once = self.skip("ONCE") or once
        self.skip("BY", "NAME")
        query = self.rest(f'the query of the flow into "{".".join(target)}"')
        return CreateFlow(name or target, target, query, self.line, once)

    def auto_cdc(self, name: tuple[str, ...]) -> CreateFlow:
        once = self.skip("ONCE")
        target = self.name()
        query, capture = self.capture(f'the source of "{".".join(target)}"')
        return CreateFlow(name or target, target, query, self.line, once, capture)

    def capture(self, what: str) -> tuple[str, ChangeCapture]:
        self.expect("FROM")
        return read_capture(self, what)

    def clauses(self, name: tuple[str, ...], may_end: bool) -> Clauses:
        """Read the clauses between the name and the query."""
        found = Clauses()
        while not self.ended:
            if self.skip("AS"):
                return found.ending("AS")
            if self.skip("FLOW"):
                return found.ending("FLOW")
            if self.skip("COMMENT"):
                found.comment = self.next("a comment").text
            elif self.skip("CLUSTER BY") or self.skip("PARTITIONED BY"):
                found.cluster(self.parenthesized())
            elif not self.parenthesized():
                self.next("a clause")
        if not may_end:
            raise self.wrong(f'"{".".join(name)}" has no query: AS is missing')
        return found

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
