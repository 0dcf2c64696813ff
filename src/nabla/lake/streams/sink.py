"""`lake.sink`: what `foreachBatch` of a stream calls with each batch. A batch that comes again is not applied again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.streams.batches import Progress, apply_batch
from nabla.lake.write.transaction import Transaction

Mode = Literal["append", "upsert"]
Envelope = Literal["debezium", "delta"]

_QUERY_ID = "sql.streaming.queryId"
_GONE, _ORDER, _RANK = "_nabla_gone", "_nabla_order", "_nabla_rank"
_POSITIONS = ("lsn", "pos", "scn", "sequence")
"""Fields of Debezium's `source` that order events of one millisecond, for one database or another."""
_DELTA_KIND = "_change_type"
_DELTA_COLUMNS = frozenset((_DELTA_KIND, "_commit_version", "_commit_timestamp", "_version", "_timestamp"))
_OLD_VALUES = ("update_preimage", "update_before")


@dataclass(frozen=True)
class Sink:
    """Made by `lake.sink`; a function of a batch and its number."""

    context: LakeContext
    table: str
    mode: Mode
    envelope: Envelope | None
    delete_when: str | None
    order_by: tuple[str, ...]
    query: str | None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        stream = f"sink {self.query or self._query_of(rows)}"
        apply_batch(self.context, self.table, stream, Progress(batch=batch_id), lambda tx: self._apply(tx, rows))

    def _apply(self, transaction: Transaction, rows: DataFrame) -> None:
        if self.mode == "append":
            transaction.insert(self.table, rows)
            return
        entry = self.context.names(self.context.log.state()).entry(self.table)
        key, schema = tuple(entry.definition.get("key") or ()), types.from_json(entry.definition["schema"])
        with self.context.translating(f'sink into "{entry.name}"'):
            events = self._newest(self._events(rows, key, schema), key)
            transaction.upsert(self.table, events, delete_when=_GONE)

    def _query_of(self, rows: DataFrame) -> str:
        found = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if not found:
            raise NablaError(
                "NABLA_SINK",
                "the batch belongs to no stream of Spark that has an id",
                place=f'sink into "{self.table}"',
                remedy='Call it from foreachBatch, or name the stream: lake.sink(…, query="orders").',
            )
        return str(found)

    def _newest(self, events: DataFrame, key: Sequence[str]) -> DataFrame:
        """The last event for each key. Events that nothing puts in order stay: they are refused if they differ."""
        missing = [name for name in key if name.casefold() not in (column.casefold() for column in events.columns)]
        if missing or events.where(" AND ".join(f"{quote(name)} IS NULL" for name in key)).limit(1).count():
            raise NablaError(
                "NABLA_CDC_EVENT",
                f"events have no {', '.join(missing or key)}, which is the key",
                place=f'sink into "{self.table}"',
                remedy="Let the source send the key with every event.",
            )
        last = Window.partitionBy(*map(quote, key)).orderBy(F.col(_ORDER).desc())
        return events.withColumn(_RANK, F.rank().over(last)).where(f"{_RANK} = 1").drop(_RANK, _ORDER)

    def _events(self, rows: DataFrame, key: Sequence[str], schema: StructType) -> DataFrame:
        """The events as rows of the table, with whether they delete their key, and their order."""
        if self.envelope == "debezium":
            return self._from_debezium(rows, key, schema)
        order = [F.expr(text) for text in self.order_by]
        if self.envelope == "delta":
            self._require(rows, _DELTA_KIND)
            rows = rows.where(~F.col(_DELTA_KIND).isin(*_OLD_VALUES))
            versions = [name for name in ("_commit_version", "_version") if name in rows.columns]
            gone = F.col(_DELTA_KIND) == "delete"
            # A key that one version deletes and inserts is there after it.
            return _event(rows, schema, _DELTA_COLUMNS, gone, [*(order or map(F.col, versions)), ~gone])
        gone = F.lit(False) if self.delete_when is None else F.expr(self.delete_when)
        extra = frozenset(rows.columns) - frozenset(schema.names) if self.delete_when or order else frozenset[str]()
        return _event(rows, schema, extra, gone, order)

    def _from_debezium(self, rows: DataFrame, key: Sequence[str], schema: StructType) -> DataFrame:
        if "op" not in rows.columns and "payload" in rows.columns:
            rows = rows.select("payload.*")
        self._require(rows, "op", "before", "after")
        rows = rows.where("op IS NOT NULL")  # tombstones, which Kafka needs and nobody else
        if rows.where("op NOT IN ('c', 'r', 'u', 'd')").limit(1).count():
            raise NablaError(
                "NABLA_CDC_EVENT",
                "there are events other than c, r, u and d, such as a truncation",
                place=f'sink into "{self.table}"',
                remedy="Filter them out, and truncate the table in a transaction.",
            )
        order = [F.expr(text) for text in self.order_by] or self._debezium_order(rows)
        gone = F.col("op") == "d"
        now = rows.withColumn("_row", F.when(gone, F.col("before")).otherwise(F.col("after")))
        changed = [~F.col(f"before.{quote(one)}").eqNullSafe(F.col(f"after.{quote(one)}")) for one in key]
        differs = changed[0]
        for one in changed[1:]:
            differs = differs | one
        moved = rows.where((F.col("op") == "u") & F.col("before").isNotNull() & differs).withColumn(
            "_row", F.col("before")
        )
        fields = [f"_row.{quote(name)}" for name in now.select("_row.*").columns]
        parts = [
            now.select(*fields, gone.alias(_GONE), F.struct(*order, F.lit(1)).alias(_ORDER)),
            moved.select(*fields, F.lit(True).alias(_GONE), F.struct(*order, F.lit(0)).alias(_ORDER)),
        ]
        every = parts[0].unionAll(parts[1])
        return _checked(every, schema, frozenset((_GONE, _ORDER)))

    def _debezium_order(self, rows: DataFrame) -> list[Column]:
        found = [F.col("ts_ms")] if "ts_ms" in rows.columns else []
        if "source" in rows.columns and isinstance(rows.schema["source"].dataType, StructType):
            names = rows.schema["source"].dataType.names
            found = [F.col(f"source.{name}") for name in _POSITIONS if name in names] or found
        if not found:
            raise NablaError(
                "NABLA_CDC_EVENT",
                "nothing says in which order the events happened",
                place=f'sink into "{self.table}"',
                remedy='Keep ts_ms or source of the envelope, or pass order_by="…".',
            )
        return found

    def _require(self, rows: DataFrame, *names: str) -> None:
        missing = [name for name in names if name not in rows.columns]
        if missing:
            raise NablaError(
                "NABLA_CDC_EVENT",
                f"the rows have no {', '.join(missing)}, which belongs to the envelope",
                place=f'sink into "{self.table}"',
                remedy="Parse the events first, as with from_json, or leave out envelope=.",
            )


def _event(
    rows: DataFrame, schema: StructType, without: frozenset[str], gone: Column, order: Sequence[Column]
) -> DataFrame:
    names = [name for name in rows.columns if name not in without]
    flag = F.coalesce(gone, F.lit(False)).alias(_GONE)
    return _checked(
        rows.select(*map(quote, names), flag, F.struct(*order, F.lit(0)).alias(_ORDER)),
        schema,
        frozenset((_GONE, _ORDER)),
    )


def _checked(events: DataFrame, schema: StructType, besides: frozenset[str]) -> DataFrame:
    """Refuse columns that the table does not have: they would be lost."""
    known = {name.casefold() for name in schema.names}
    unknown = [name for name in events.columns if name.casefold() not in known and name not in besides]
    if unknown:
        raise NablaError(
            "NABLA_COLUMNS",
            f"the events have columns that the table lacks: {', '.join(unknown)}",
            place="sink",
            remedy="Select the columns of the table first, or alter the table.",
        )
    return events


def make_sink(
    context: LakeContext,
    table: str,
    mode: Mode | None,
    envelope: Envelope | None,
    delete_when: str | None,
    order_by: str | Sequence[str] | None,
    query: str | None,
) -> Sink:
    """A sink into a table of the lake, by key if it has an envelope or deletes."""
    entry = context.names(context.log.state()).entry(table)
    by_key = envelope is not None or delete_when is not None or order_by is not None
    if mode == "append" and by_key:
        raise NablaError(
            "NABLA_SINK",
            "rows that are appended delete nothing and come in no order",
            place=f'sink into "{entry.name}"',
            remedy='Pass mode="upsert", or leave out envelope=, delete_when= and order_by=.',
        )
    if envelope is not None and delete_when is not None:
        raise NablaError(
            "NABLA_SINK",
            "the envelope says which events delete",
            place=f'sink into "{entry.name}"',
            remedy="Leave out delete_when=.",
        )
    chosen: Mode = mode or ("upsert" if by_key else "append")
    if chosen == "upsert" and not entry.definition.get("key"):
        raise NablaError(
            "NABLA_NO_KEY",
            f'table "{entry.name}" has no declared key, so nothing says which rows to replace',
            place=f'sink into "{entry.name}"',
            remedy='Create it with key=, or pass mode="append".',
        )
    orders = (order_by,) if isinstance(order_by, str) else tuple(order_by or ())
    return Sink(context, entry.name, chosen, envelope, delete_when, orders, query)
