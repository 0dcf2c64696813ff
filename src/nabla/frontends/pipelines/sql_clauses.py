"""Parts of the statements of a pipeline: column lists with expectations, and the clauses of AUTO CDC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from sqlglot.tokens import Token, TokenType

from nabla.frontends.pipelines.api import check_capture, scd_type
from nabla.frontends.pipelines.elements import Action, ChangeCapture, Expectation
from nabla.frontends.pipelines.tokens import TokenReader, split_at

ACTIONS: dict[tuple[str, ...], Action] = {("DROP", "ROW"): "drop", ("FAIL", "UPDATE"): "fail"}


@dataclass(frozen=True)
class Columns:
    """A column list: its text without the constraints, and the expectations among these."""

    text: str
    expectations: tuple[Expectation, ...]


@dataclass
class Clauses:
    """What stands between the name of a dataset and its query. `ended_by` is the word that the query follows."""

    comment: str | None = None
    cluster_by: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    ended_by: Literal["", "AS", "FLOW"] = ""

    def ending(self, word: Literal["AS", "FLOW"]) -> Self:
        self.ended_by = word
        return self

    def cluster(self, tokens: Sequence[Token]) -> None:
        """Note the columns of CLUSTER BY or PARTITIONED BY; a transformation such as days(x) is left to the reader."""
        items = [item for item in split_at(tokens, TokenType.COMMA) if len(item) <= 2]
        self.cluster_by += tuple(item[0].text for item in items if item[0].text not in self.cluster_by)


def read_columns(tokens: Sequence[Token], reader: TokenReader) -> Columns:
    """The column list in the parentheses after a name. Constraints that only inform, such as PRIMARY KEY, are left out."""
    columns, expectations = [], []
    for item in split_at(tokens, TokenType.COMMA):
        if item[0].text.upper() == "CONSTRAINT" and item[0].token_type == TokenType.CONSTRAINT:
            one = TokenReader(item, reader.text, reader.file, reader.remedy)
            one.skip("CONSTRAINT")
            name = one.next("the name of a constraint").text
            if one.skip("EXPECT"):
                expectations.append(_expectation(name, one))
        else:
            columns.append(reader.text_of(item))
    return Columns(", ".join(columns), tuple(expectations))


def _expectation(name: str, reader: TokenReader) -> Expectation:
    condition = reader.text_of(reader.parenthesized())
    if not condition:
        raise reader.wrong(f'the expectation "{name}" has no condition in parentheses')
    if reader.ended:
        return Expectation(name, condition)
    reader.expect("ON", "VIOLATION")
    for words, action in ACTIONS.items():
        if reader.skip(*words):
            return Expectation(name, condition, action)
    raise reader.wrong(f'on violation of "{name}" comes DROP ROW or FAIL UPDATE, and not {reader.peek()}')


_ENDS = (
    ("KEYS",),
    ("IGNORE", "NULL", "UPDATES"),
    ("APPLY", "AS"),
    ("SEQUENCE", "BY"),
    ("COLUMNS",),
    ("STORED", "AS"),
    ("TRACK", "HISTORY"),
)


def read_capture(reader: TokenReader, what: str) -> tuple[str, ChangeCapture]:
    """The query and the arguments of AUTO CDC, from after FROM to the end of the statement."""
    source = reader.until(*_ENDS)
    if not source:
        raise reader.wrong(f"{what} is missing")
    is_stream = source.upper().startswith(("STREAM", "(", "CLOUD_FILES"))
    query = f"SELECT * FROM {source}" if is_stream else f"SELECT * FROM STREAM {source}"
    keys: tuple[str, ...] = ()
    given: dict[str, str] = {}
    listed: dict[str, tuple[str, ...]] = {}
    scd = 1
    while not reader.ended:
        if reader.skip("KEYS"):
            keys = _names(reader, reader.parenthesized())
        elif reader.skip("APPLY", "AS", "DELETE", "WHEN"):
            given["deletes"] = reader.until(*_ENDS)
        elif reader.skip("APPLY", "AS", "TRUNCATE", "WHEN"):
            given["truncates"] = reader.until(*_ENDS)
        elif reader.skip("SEQUENCE", "BY"):
            given["sequence_by"] = reader.until(*_ENDS)
        elif reader.skip("COLUMNS"):
            listed |= _column_list(reader, "columns", "except_columns")
        elif reader.skip("STORED", "AS", "SCD", "TYPE"):
            scd = scd_type(reader.next("the type").text)
        elif reader.skip("TRACK", "HISTORY", "ON"):
            listed |= _column_list(reader, "track", "track_except")
        elif reader.comes("IGNORE", "NULL", "UPDATES"):
            raise reader.wrong("IGNORE NULL UPDATES is not supported: fill NULLs in the source of the flow instead")
        else:
            raise reader.wrong(f"{reader.peek()} is no clause of AUTO CDC")
    if not keys or "sequence_by" not in given:
        raise reader.wrong("AUTO CDC needs KEYS (…) and SEQUENCE BY …")
    capture = ChangeCapture(
        keys=keys,
        sequence_by=given["sequence_by"],
        deletes=given.get("deletes"),
        truncates=given.get("truncates"),
        columns=listed.get("columns", ()),
        except_columns=listed.get("except_columns", ()),
        scd_type=scd_type(scd),
        track=listed.get("track", ()),
        track_except=listed.get("track_except", ()),
    )
    try:
        check_capture(capture)
    except ValueError as error:
        raise reader.wrong(str(error)) from error
    return query, capture


def _column_list(reader: TokenReader, included: str, excluded: str) -> dict[str, tuple[str, ...]]:
    """`(a, b)`, `a, b`, or `* EXCEPT (a, b)`."""
    if reader.skip("*"):
        reader.expect("EXCEPT")
        return {excluded: _names(reader, reader.parenthesized())}
    inside = reader.parenthesized()
    if inside:
        return {included: _names(reader, inside)}
    start = reader.at
    reader.until(*_ENDS)
    return {included: _names(reader, reader.tokens[start : reader.at])}


def _names(reader: TokenReader, tokens: Sequence[Token]) -> tuple[str, ...]:
    items = list(split_at(tokens, TokenType.COMMA))
    if not items or any(len(item) != 1 for item in items):
        raise reader.wrong("a list of names of columns is expected")
    return tuple(item[0].text for item in items)
