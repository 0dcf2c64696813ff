"""Spark's errors about a query, as errors of Nabla: with a code, the place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger

from nabla.algebra.notation.words import listed
from nabla.errors import NablaError

_PARSER_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


@contextmanager
def quiet() -> Iterator[None]:
    """PySpark logs every refused query with its Java stack; the error that we raise says all of it that matters."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def translated(error: PySparkException, sql: str, tables: Collection[str]) -> NablaError:
    condition, place = error.getCondition() or "", _place(error, sql)
    parameters = error.getMessageParameters() or {}
    if isinstance(error, ParseException):
        return NablaError("NABLA_SQL_SYNTAX", _sentence(error), place=place, remedy="Nabla reads Spark SQL.")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return unknown_table(parameters.get("relationName", "").replace("`", ""), tables, place)
    if condition.startswith("UNRESOLVED_COLUMN"):
        name = parameters.get("objectName", "").replace("`", "")
        near = parameters.get("proposal", "").replace("`", "")
        remedy = f"There are: {near}." if near else ""
        return NablaError("NABLA_UNKNOWN_COLUMN", f"there is no column {name}", place=place, remedy=remedy)
    if isinstance(error, AnalysisException):
        return NablaError("NABLA_SQL_ANALYSIS", _sentence(error), place=place)
    return NablaError("NABLA_SQL_ANALYSIS", f"Spark failed to resolve the query: {_sentence(error)}", place=place)


def failed(error: PySparkException, place: str, tables: Collection[str]) -> NablaError:
    """A query of Nabla's own making that did not resolve or did not run."""
    if isinstance(error, AnalysisException | ParseException):
        known = translated(error, "", tables)
        return NablaError(known.code, known.message, place=place, remedy=known.remedy)
    return NablaError("NABLA_QUERY_FAILED", _sentence(error), place=place)


def unknown_table(name: str, tables: Collection[str], place: str) -> NablaError:
    near = get_close_matches(name.lower(), [t.lower() for t in tables], n=3)
    if near:
        remedy = "Did you mean " + listed([t for t in sorted(tables) if t.lower() in near], "or") + "?"
    else:
        remedy = f"The lake has: {', '.join(sorted(tables))}." if tables else "The lake has no tables yet."
    return NablaError(
        "NABLA_UNKNOWN_TABLE", f"there is no table or view {name} in the lake", place=place, remedy=remedy
    )


def _sentence(error: PySparkException) -> str:
    """The first paragraph, without condition, state and the text of the query."""
    text = error.getMessage() or str(error)
    text = re.split(r"\n\s*\n|== SQL|;?\s*line \d+ pos \d+|\n'", text)[0]
    text = re.sub(r"^\[[\w.]+\]\s*", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+", "", text)
    return " ".join(text.split()).rstrip(".;")


def _place(error: PySparkException, sql: str) -> str:
    for context in error.getQueryContext():
        if context.contextType().name != "SQL":
            return context.callSite()
        start = context.startIndex()
        if 0 <= start <= len(sql):
            return place(sql, start)
    if match := _PARSER_PLACE.search(str(error)):
        return f"line {match[1]}, column {int(match[2]) + 1}"
    return ""


def place(sql: str, index: int) -> str:
    before = sql[:index]
    return f"line {before.count(chr(10)) + 1}, column {index - before.rfind(chr(10))}"
