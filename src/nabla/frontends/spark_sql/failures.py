"""Spark's errors about a query, as errors of Nabla: with a code, the place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ArithmeticException, ParseException, PySparkException
from pyspark.errors.exceptions.captured import convert_exception
from pyspark.logger import PySparkLogger

from nabla.algebra.notation.words import list_in_words
from nabla.errors import NablaError

_MACHINE = re.compile(
    r"(?P<read>FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|is not a Parquet file|Could not read footer)"
    r"|java\S*Exception: .*?(?P<write>No space left on device|Disk quota exceeded|Permission denied|Read-only file system"
    r"|Input/output error|Mkdirs failed to create)"
)
_MEMORY = re.compile(
    r"Not enough memory to build and broadcast|java\.lang\.OutOfMemoryError|Cannot broadcast the table"
    r"|UNABLE_TO_ACQUIRE_MEMORY|bigger than spark\.driver\.maxResultSize",
    re.IGNORECASE,
)
_FILE = re.compile(r"file:/*(/[^\s,;]+?\.parquet)")

_PARSER_PLACE = re.compile(r"\(line (\d+), pos (\d+)\)")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark from logging refused queries with their Java stacks: the error that Nabla raises has what matters."""
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def translated(error: PySparkException, sql: str, tables: Collection[str]) -> NablaError:
    condition, place = error.getCondition() or "", _place(error, sql)
    parameters = error.getMessageParameters() or {}
    if condition.startswith("NABLA_"):  # the rule of `SessionNames` raised it
        return NablaError(condition, parameters["message"], place=parameters["place"], remedy=parameters["remedy"])
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
    """The error of a query that Nabla made and that Spark could not resolve or run."""
    if isinstance(error, AnalysisException | ParseException):
        known = translated(error, "", tables)
        if known.place:
            return known
        return NablaError(known.code, known.message, place=place, remedy=known.remedy)
    return NablaError("NABLA_QUERY_FAILED", _sentence(error), place=place)


def machine_fault(error: PySparkException | Py4JJavaError, place: str) -> NablaError | None:
    """A full disk, a missing permission or a damaged file that Spark met, in the words of the driver's own errors."""
    text = str(error)
    fault = _MACHINE.search(text)
    if fault is None:
        return None
    file = _FILE.search(text)
    where = f"{place}, {file[1]}" if file else place
    if fault["read"]:
        what = "a file cannot be read, or is damaged"
        remedy = "`nabla fsck` finds all damaged files. Restore this one from a copy."
        return NablaError("NABLA_READ_FAILED", what, place=where, remedy=remedy)
    full = fault["write"] in ("No space left on device", "Disk quota exceeded")
    remedy = "Make room, and repeat the operation." if full else "See to the folder's permissions and the disk."
    return NablaError("NABLA_WRITE_FAILED", f"Spark cannot write: {fault['write']}", place=where, remedy=remedy)


def wants_memory(error: PySparkException | Py4JJavaError) -> bool:
    """Whether a query failed because Spark has too little memory for it."""
    return _MEMORY.search(str(error)) is not None


def failure_of_values(error: PySparkException | Py4JJavaError) -> Literal["overflow", "value"] | None:
    """How a query failed, if it may have been for the values that it met: a number left the range of its type, or an expression
    refused a value. None for a query that Spark does not take, a fault of the machine, a job that was cancelled, and Spark's
    own faults (SQLSTATE XX)."""
    if machine_fault(error, ""):
        return None
    known = of_java(error) if isinstance(error, Py4JJavaError) else error
    if isinstance(known, AnalysisException | ParseException) or (known.getSqlState() or "").startswith("XX"):
        return None
    overflow = isinstance(known, ArithmeticException) and known.getCondition() != "DIVIDE_BY_ZERO"
    return "overflow" if overflow else "value"


def of_java(error: Py4JJavaError) -> PySparkException:
    """The error of Spark behind one that PySpark has left as it came from Java: what one thread told another."""
    found = error.java_exception
    while not found.getMessage() or "[" not in found.getMessage().partition("]")[0]:
        if found.getCause() is None:
            break
        found = found.getCause()
    return convert_exception(found)


def unknown_table(name: str, tables: Collection[str], place: str) -> NablaError:
    near = get_close_matches(name.lower(), [t.lower() for t in tables], n=3)
    if near:
        remedy = "Did you mean " + list_in_words([t for t in sorted(tables) if t.lower() in near], "or") + "?"
    else:
        remedy = f"The lake has: {', '.join(sorted(tables))}." if tables else "The lake has no tables yet."
    return NablaError(
        "NABLA_UNKNOWN_TABLE", f"there is no table or view {name} in the lake", place=place, remedy=remedy
    )


def _sentence(error: PySparkException) -> str:
    """The first paragraph of a message, without condition, state and the text of the query."""
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
