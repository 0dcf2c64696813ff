"""Change data capture: the events of a stream as a table, and the target as a query over them.

The events are kept as they came, so that late, repeated and unordered ones need no care: the target is always what all events
together say, whatever the order. The query is maintained like every other view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from nabla.errors import NablaError
from nabla.frontends.pipelines.elements import ChangeCapture, ColumnLike

SEQUENCE, OPERATION, TIE = "__sequence", "__operation", "__tie"
START, END = "__START_AT", "__END_AT"


def events_table(target: str) -> str:
    """The table of the events of a target."""
    return f"{target}__events"


def project_events(capture: ChangeCapture, frame: DataFrame, place: str) -> DataFrame:
    """The rows of a stream as events: the columns, the sequence and the operation. Of two events of a key with the same
    sequence, deletions count, then the one with the larger tie."""
    names = {name.lower(): name for name in frame.columns}
    listed = (*capture.keys, *capture.columns, *capture.except_columns, *capture.track, *capture.track_except)
    missing = [name for name in map(column_name, listed) if name.lower() not in names]
    if missing:
        raise NablaError(
            "NABLA_UNKNOWN_COLUMN",
            f'the events have no column "{missing[0]}"',
            place=place,
            remedy=f"They have {', '.join(frame.columns)}.",
        )
    columns = [F.col(quoted(name)) for name in frame.columns]
    operation = F.lit("upsert")
    if capture.deletes is not None:
        operation = F.when(F.coalesce(_column(capture.deletes), F.lit(False)), F.lit("delete")).otherwise(operation)
    if capture.truncates is not None:
        operation = F.when(F.coalesce(_column(capture.truncates), F.lit(False)), F.lit("truncate")).otherwise(operation)
    tie = F.xxhash64(F.to_json(F.struct(*columns)))
    return frame.select(
        *columns, _column(capture.sequence_by).alias(SEQUENCE), operation.alias(OPERATION), tie.alias(TIE)
    )


def check_events(capture: ChangeCapture, events: DataFrame, place: str) -> None:
    """Refuse events without their key or sequence."""
    absent = " OR ".join(f"{quoted(column_name(key))} IS NULL" for key in capture.keys)
    without = f"{SEQUENCE} IS NULL OR ({OPERATION} <> 'truncate' AND ({absent}))"
    count = events.where(without).count()
    if count:
        raise NablaError(
            "NABLA_CDC_EVENT",
            f"{count} events have no key ({', '.join(map(column_name, capture.keys))}) or no sequence",
            place=place,
            remedy="Leave such events out in the source of the flow.",
        )


def target_query(capture: ChangeCapture, events: str, columns: Sequence[str], place: str) -> str:
    """The target as a query over the table of events, which has these columns beside its own."""
    own = [name for name in columns if name not in (SEQUENCE, OPERATION, TIE)]
    chosen = _chosen(own, capture.columns, capture.except_columns)
    if capture.scd_type == 1:
        return _latest(capture, events, chosen)
    return _history(capture, events, chosen)


def _latest(capture: ChangeCapture, events: str, chosen: Sequence[str]) -> str:
    """Type 1: the last event of each key, unless that is a deletion or a truncation came later."""
    keys = ", ".join(quoted(column_name(key)) for key in capture.keys)
    shown = ", ".join(map(quoted, chosen))
    source = quoted(events)
    if capture.truncates is not None:
        source = (
            f"(SELECT e.* FROM {source} e LEFT JOIN (SELECT MAX({SEQUENCE}) AS __cut FROM {source} "
            f"WHERE {OPERATION} = 'truncate') t ON true "
            f"WHERE e.{OPERATION} <> 'truncate' AND (t.__cut IS NULL OR e.{SEQUENCE} > t.__cut))"
        )
    return (
        f"SELECT {shown} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys} "
        f"ORDER BY {SEQUENCE} DESC, {OPERATION}, {TIE} DESC) AS __place FROM {source}) "
        f"WHERE __place = 1 AND {OPERATION} = 'upsert'"
    )


def _history(capture: ChangeCapture, events: str, chosen: Sequence[str]) -> str:
    """Type 2: a row for each run of events of a key that agree in the tracked columns, with the sequence at which it begins and
    the one at which the next event ends it. Columns that are not tracked have the values of the last event of the run."""
    names = [column_name(key) for key in capture.keys]
    low = {name.lower() for name in names}
    keys = ", ".join(map(quoted, names))
    tracked = [n for n in _chosen(chosen, capture.track, capture.track_except) if n.lower() not in low]
    ordered = f"OVER (PARTITION BY {keys} ORDER BY {SEQUENCE})"
    differs = "".join(f" OR NOT ({quoted(n)} <=> LAG({quoted(n)}) {ordered})" for n in tracked)
    inner = list(dict.fromkeys([*names, *chosen]))
    shown = ", ".join(map(quoted, inner))
    once = (
        f"SELECT {shown}, {SEQUENCE}, {OPERATION} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {keys}, {SEQUENCE} "
        f"ORDER BY {OPERATION}, {TIE} DESC) AS __place FROM {quoted(events)}) WHERE __place = 1"
    )
    heads = (
        f"SELECT *, {OPERATION} = 'delete' OR LAG({OPERATION}) {ordered} IS NULL "
        f"OR LAG({OPERATION}) {ordered} = 'delete'{differs} AS __head FROM ({once})"
    )
    runs = (
        f"SELECT *, MAX(CASE WHEN __head THEN {SEQUENCE} END) OVER (PARTITION BY {keys} ORDER BY {SEQUENCE} "
        f"ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {START}, "
        f"LEAD({SEQUENCE}) {ordered} AS {END}, COALESCE(LEAD(__head) {ordered}, true) AS __last FROM ({heads})"
    )
    out = ", ".join(map(quoted, chosen))
    return f"SELECT {out}, {START}, {END} FROM ({runs}) WHERE {OPERATION} = 'upsert' AND __last"


def _chosen(columns: Sequence[str], included: Sequence[ColumnLike], excluded: Sequence[ColumnLike]) -> list[str]:
    wanted = {column_name(column).lower() for column in included}
    unwanted = {column_name(column).lower() for column in excluded}
    return [c for c in columns if (not wanted or c.lower() in wanted) and c.lower() not in unwanted]


def column_name(column: ColumnLike) -> str:
    """The name of a column that is given as text or as `col("name")`."""
    if isinstance(column, str):
        return column.strip("`")
    java: Any = getattr(column, "_jc", None)
    return str(java.toString() if java is not None else column).strip("`")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _column(given: ColumnLike) -> Column:
    return F.expr(given) if isinstance(given, str) else given
