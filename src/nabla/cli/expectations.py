"""Expectations of a project: rows for which a condition is not true are counted, left out, or make the update fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nabla.errors import NablaError
from nabla.frontends.pipelines.elements import Element, Expectation

if TYPE_CHECKING:
    from nabla.lake.facade import Lake


@dataclass(frozen=True)
class ExpectationReport:
    """The rows of a dataset that did not meet an expectation: those of the rows that came in this run, or, for a view, those
    that are there (`warn`) or are left out (`drop`) now."""

    name: str
    action: str
    failed: int


def check_conditions(expectations: Sequence[Expectation], frame: DataFrame, place: str) -> None:
    """Refuse a condition that Spark does not understand."""
    for one in expectations:
        try:
            kind = frame.select(F.expr(one.condition)).schema[0].dataType.simpleString()
        except PySparkException as error:
            first = str(error).strip().splitlines()[0]
            raise _wrong(one, first, place) from error
        if kind not in ("boolean", "void"):
            raise _wrong(one, f"it is a {kind}, and not true or false", place)


def _wrong(one: Expectation, what: str, place: str) -> NablaError:
    return NablaError(
        "NABLA_EXPECTATION",
        f'the expectation "{one.name}" cannot be evaluated: {what}',
        place=place,
        remedy=f"Correct the condition: {one.condition}",
    )


def meet(
    expectations: Sequence[Expectation], rows: DataFrame, what: str, place: str, exempt: str | None = None
) -> tuple[DataFrame, dict[str, int]]:
    """The rows that stay, and how many did not meet each expectation. Rows for which `exempt` is true need not meet any."""
    if not expectations:
        return rows, {}
    holds = {one.name: holding(one.condition, exempt) for one in expectations}
    counts = [F.count(F.when(~F.expr(holds[one.name]), 1)).alias(f"n{i}") for i, one in enumerate(expectations)]
    found = rows.agg(*counts).first()
    assert found is not None
    failed = {one.name: int(found[i]) for i, one in enumerate(expectations)}
    for one in expectations:
        if one.action == "fail" and failed[one.name]:
            raise violated(one, failed[one.name], what, place)
    for one in expectations:
        if one.action == "drop":
            rows = rows.where(holds[one.name])
    return rows, failed


def holding(condition: str, exempt: str | None = None) -> str:
    """A condition that is never NULL: true where the given one is, or where `exempt` is."""
    return f"coalesce(({condition}), false)" if exempt is None else f"coalesce(({condition}), false) OR ({exempt})"


def violated(one: Expectation, failed: int, what: str, place: str) -> NablaError:
    return NablaError(
        "NABLA_EXPECTATION_FAILED",
        f'{failed} rows of {what} do not meet "{one.name}": {one.condition}',
        place=place,
        remedy="Correct the rows in the source, or let the expectation drop or only count them.",
    )


def meeting(expectations: Sequence[Expectation], query: str | DataFrame) -> str | DataFrame:
    """The query of a view without the rows that are to be dropped."""
    conditions = [holding(one.condition) for one in expectations if one.action == "drop"]
    if not conditions:
        return query
    whole = " AND ".join(conditions)
    return f"SELECT * FROM (\n{query}\n) WHERE {whole}" if isinstance(query, str) else query.where(whole)


def guarded(expectations: Sequence[Expectation], frame: DataFrame) -> DataFrame:
    """The frame of a temporary view, which is computed inside of the queries that read it: rows are dropped there, or make them
    fail. Nobody counts them."""
    for one in expectations:
        if one.action == "drop":
            frame = frame.where(holding(one.condition))
        elif one.action == "fail":
            text = f"NABLA_EXPECTATION_FAILED: {one.name}: {one.condition}".replace("\\", "\\\\").replace("'", "\\'")
            frame = frame.where(
                f"CASE WHEN {holding(one.condition)} THEN true ELSE CAST(raise_error('{text}') AS BOOLEAN) END"
            )
    return frame


def keep_constraints(lake: Lake, element: Element, query: str | DataFrame) -> None:
    """Let constraints of the lake hold the expectations of a view. Rows that are dropped are those of a constraint that warns,
    over the query without the drop."""
    for one in element.expectations:
        broken = f"NOT {holding(one.condition)}"
        over: str | DataFrame = query if one.action == "drop" else f"SELECT * FROM `{element.name}`"
        found = f"SELECT * FROM (\n{over}\n) WHERE {broken}" if isinstance(over, str) else over.where(broken)
        _keep(lake, _constraint(element.name, one.name), found, "reject" if one.action == "fail" else "warn")


def count_violations(lake: Lake, element: Element) -> tuple[ExpectationReport, ...]:
    """The rows that do not meet the expectations of a view. None, where they would have made the update fail."""
    entries = lake.context.log.state().entries
    names = {one.name: _constraint(element.name, one.name) for one in element.expectations}
    return tuple(
        ExpectationReport(one.name, one.action, int(entries[names[one.name]].facts.get("rows") or 0))
        for one in element.expectations
        if names[one.name] in entries
    )


def _keep(lake: Lake, name: str, query: str | DataFrame, action: str) -> None:
    entry = lake.context.log.state().entries.get(name)
    if entry is not None and entry.kind == "constraint":
        same = isinstance(query, str) and entry.definition.get("sql") == query
        if same and entry.definition.get("on_violation") == action:
            return
        lake.drop_constraint(name)
    lake.create_constraint(name, query, action)


def _constraint(view: str, expectation: str) -> str:
    """The name of an expectation's constraint."""
    return f"{view}__" + "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in expectation)
