"""What a project defines, as plain data: datasets, the flows that load streaming tables and sinks, and expectations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

Query = Callable[[], DataFrame]
Kind = Literal["materialized_view", "temporary_view", "streaming_table", "sink", "rules"]
Action = Literal["warn", "drop", "fail"]
ColumnLike = str | Column


@dataclass(frozen=True)
class Expectation:
    """A condition that rows are to meet, and what happens to rows for which it is not true: they are counted, left out as
    well, or the update fails."""

    name: str
    condition: str
    action: Action = "warn"


@dataclass(frozen=True)
class ChangeCapture:
    """How a flow applies events of a change stream to its target: the arguments of `create_auto_cdc_flow`.

    `source` is the name of a dataset; a flow with a query of its own has none.
    """

    keys: tuple[ColumnLike, ...]
    sequence_by: ColumnLike
    source: str | None = None
    deletes: ColumnLike | None = None
    truncates: ColumnLike | None = None
    columns: tuple[ColumnLike, ...] = ()
    except_columns: tuple[ColumnLike, ...] = ()
    scd_type: Literal[1, 2] = 1
    track: tuple[ColumnLike, ...] = ()
    track_except: tuple[ColumnLike, ...] = ()


@dataclass(frozen=True)
class Flow:
    """A query whose new rows are added to a streaming table or sink; with `capture`, they are events that are applied to it.
    With `once`, the query is a batch, and runs a single time."""

    name: str
    target: str
    query: str | Query | None
    file: Path
    line: int
    settings: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    capture: ChangeCapture | None = None

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class Element:
    """A dataset of a project: a view to store, a temporary view that other queries read, a streaming table or sink with its
    flows, or rules.

    `query` is the text of SQL or rules, or a function that returns a DataFrame; a streaming table and a sink have flows
    instead. `schema` is the declared schema of the result, `settings` are Spark settings for this query alone, and
    `predicates` are those that rules define.
    """

    name: str
    kind: Kind
    query: str | Query | None
    file: Path
    line: int
    comment: str | None = None
    schema: str | StructType | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    flows: tuple[Flow, ...] = ()
    cluster_by: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    handler: Callable[[DataFrame, int], Any] | None = None

    @property
    def place(self) -> str:
        return f"{self.file}, line {self.line}"

    @property
    def views(self) -> tuple[str, ...]:
        """The names under which the lake keeps it."""
        return self.predicates if self.kind == "rules" else (self.name,)
