"""The tables, streams and files that a query of a project names, replaced by names that a Spark session knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.tokens import Token, TokenType

from nabla.frontends.pipelines.names import ProjectNames
from nabla.frontends.pipelines.tokens import TokenReader, split_at, word

_BEFORE_TABLES = {TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN}
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


@dataclass(frozen=True)
class FilesRead:
    """A call of read_files or cloud_files: the path, the format and other options."""

    path: str
    options: Mapping[str, str]


class Resolver(Protocol):
    """Knows the tables, streams and files that names stand for. Every method gives the text to write instead, or None where the
    name is to stay."""

    def table(self, parts: tuple[str, ...]) -> str | None: ...

    def stream(self, parts: tuple[str, ...]) -> str | None: ...

    def files(self, read: FilesRead, streaming: bool) -> str | None: ...


class Unqualified:
    """Resolves nothing but the names of a project's own datasets, which it gives without their database."""

    def __init__(self, names: ProjectNames) -> None:
        self._names = names

    def table(self, parts: tuple[str, ...]) -> str | None:
        return self._names.in_lake(parts)

    def stream(self, parts: tuple[str, ...]) -> str | None:
        return None

    def files(self, read: FilesRead, streaming: bool) -> str | None:
        return None


def rewrite(query: str, resolver: Resolver) -> str:
    """The query with all names replaced that the resolver knows."""
    try:
        query = _replace(query, _streams_and_files(query, resolver))
        tree = sqlglot.parse_one(query, dialect="spark")
    except (SqlglotError, TokenError):
        return query  # Spark will report the error of the query
    inside = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    cuts = []
    for table in tree.find_all(exp.Table):
        parts = table.parts
        names = tuple(part.name for part in parts)
        is_name = all(isinstance(part, exp.Identifier) and "start" in part.meta for part in parts)
        if not is_name or (len(names) == 1 and names[0].lower() in inside):
            continue
        new = resolver.table(names)
        if new == names[-1]:
            cuts.append((int(parts[0].meta["start"]), int(parts[-1].meta["start"]), ""))
        elif new is not None:
            cuts.append((int(parts[0].meta["start"]), int(parts[-1].meta["end"]) + 1, new))
    return _replace(query, cuts)


def _replace(text: str, cuts: Sequence[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(cuts, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _streams_and_files(query: str, resolver: Resolver) -> list[tuple[int, int, str]]:
    """The places of STREAM(t), STREAM t, read_files(…) and cloud_files(…), with what comes there instead."""
    tokens = Spark().tokenize(query)
    cuts: list[tuple[int, int, str]] = []
    at = 0
    while at < len(tokens):
        reader = TokenReader(tokens, query, "", "")
        reader.at = at
        after_from = at > 0 and tokens[at - 1].token_type in _BEFORE_TABLES
        new = _stream(reader, resolver) if after_from else None
        if new is None:
            reader.at = at
            new = _files(reader, resolver, streaming=False) if after_from else None
        if new is None:
            at += 1
            continue
        cuts.append((tokens[at].start, tokens[reader.at - 1].end + 1, new))
        at = reader.at
    return cuts


def _stream(reader: TokenReader, resolver: Resolver) -> str | None:
    before = reader.tokens[reader.at - 1].token_type
    if not reader.skip("STREAM") or reader.ended:
        return None
    opened = reader.skip("(")
    if not opened and before in (TokenType.COMMA, TokenType.L_PAREN):
        return None  # a column that is called stream
    new = None
    if _reads_files(reader):
        new = _files(reader, resolver, streaming=True)
    else:
        if reader.tokens[reader.at].token_type not in _NAMES and not _is_word(reader.tokens[reader.at]):
            return None
        new = resolver.stream(reader.name())
    if opened and not reader.skip(")"):
        return None
    return new


def _is_word(token: Token) -> bool:
    return token.token_type != TokenType.STRING and token.text[:1].isalpha()


def _reads_files(reader: TokenReader) -> bool:
    """Whether a call of read_files or cloud_files comes next."""
    return reader.comes("READ_FILES", "(") or reader.comes("CLOUD_FILES", "(")


def _files(reader: TokenReader, resolver: Resolver, streaming: bool) -> str | None:
    if not _reads_files(reader):
        return None
    called = word(reader.tokens[reader.at])
    reader.at += 1
    arguments = list(split_at(reader.parenthesized(), TokenType.COMMA))
    if called == "CLOUD_FILES":
        return resolver.files(_of_cloud_files(arguments), True)
    return resolver.files(_of_read_files(arguments), streaming)


def _of_read_files(arguments: Sequence[Sequence[Token]]) -> FilesRead:
    """`read_files('path', format => 'csv', header => true)`"""
    path, options = "", {}
    for argument in arguments:
        if len(argument) >= 3 and argument[1].text == "=>":
            options[argument[0].text] = "".join(token.text for token in argument[2:])
        else:
            path = argument[0].text
    return FilesRead(path, options)


def _of_cloud_files(arguments: Sequence[Sequence[Token]]) -> FilesRead:
    """`cloud_files('path', 'json', map('header', 'true'))`"""
    texts = [argument[0].text for argument in arguments]
    options: dict[str, str] = {"format": texts[1]} if len(texts) > 1 else {}
    for argument in arguments[2:]:
        values = [token.text for token in argument if token.token_type == TokenType.STRING]
        options |= dict(zip(values[::2], values[1::2], strict=False))
    return FilesRead(texts[0] if texts else "", options)
