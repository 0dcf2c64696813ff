"""What a lake tells about itself: the status of everything in it, the history of what happened, the changes of tables."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from nabla.engine.sources import change_frame
from nabla.lake.explain import last_refresh
from nabla.lake.objects.graph import derived
from nabla.lake.objects.names import columns_of
from nabla.lake.objects.view import load_view
from nabla.lake.reports import Event, History, Status
from nabla.storage.catalog import Entry
from nabla.storage.changes import between

if TYPE_CHECKING:
    from nabla.lake.facade import Lake


def status_of(lake: Lake, entry: Entry, stale: bool) -> Status:
    part = entry.parts["data"]
    version = part.version
    rows = entry.facts.get("rows")
    if entry.kind == "registered":
        snapshot = lake._log.table(part).snapshot()
        version, rows = snapshot.version, snapshot.rows
    obstacles: tuple[str, ...] = ()
    when = ""
    if derived(entry):
        view = load_view(entry.name, entry.definition)
        obstacles = tuple(str(o) for o in view.obstacles)
        when = view.on_violation or view.maintain
    updated = datetime.datetime.fromtimestamp(lake._log.table(part).timestamp(part.version) / 1000, datetime.UTC)
    sources = dict(entry.facts.get("sources", {}))
    return Status(entry.name, entry.kind, version, rows, stale, sources, last_refresh(entry), updated, obstacles, when)


def history_of(lake: Lake, entry: Entry | None, limit: int | None) -> History:
    """The commits of a table or view, or of the lake with the versions of the lake, newest first."""
    events = []
    for record in lake._log.history(entry.name if entry else None, limit):
        said = record.objects[entry.name] if entry else {}
        reason = said.get("reason", "") if entry else ", ".join(record.objects)
        events.append(
            Event(
                int(said.get("version", -1)) if entry else record.version,
                datetime.datetime.fromtimestamp(record.timestamp / 1000, datetime.UTC),
                f"{record.operation} ({said['mode']})" if "mode" in said else record.operation,
                said.get("inserted"),
                said.get("deleted"),
                said.get("seconds"),
                reason,
            )
        )
    return History(events)


def table_changes(lake: Lake, entry: Entry, since: int) -> DataFrame:
    """What changed in a table after a version, in the form of a view's feed."""
    part, names = entry.parts["data"], columns_of(entry)
    table = lake._log.table(part)
    latest = table.latest() if entry.kind == "registered" else part.version
    feed: DataFrame | None = None
    for version in range(since + 1, latest + 1):
        rows = change_frame(lake._on_spark.home, between(table, version - 1, version), names)
        kind = F.when(F.col("_n") > 0, F.lit("insert")).otherwise(F.lit("delete"))
        rows = rows.withColumn("_change_type", kind).withColumn("_version", F.lit(version).cast("bigint"))
        stamp = datetime.datetime.fromtimestamp(table.timestamp(version) / 1000, datetime.UTC)
        rows = rows.withColumn("_timestamp", F.lit(stamp).cast("timestamp"))
        rows = rows.withColumn("_n", F.explode(F.sequence(F.lit(1), F.abs(F.col("_n")).cast("int")))).drop("_n")
        feed = rows if feed is None else feed.unionAll(rows)
    if feed is None:
        empty = lake.read(entry.name).limit(0)
        return empty.selectExpr("*", "'' AS _change_type", "0L AS _version", "current_timestamp() AS _timestamp")
    return feed
