"""Is a view its query, as Spark answers it, and is its feed the minimal change? Asked after every refresh."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame

from nabla.lake.facade import Lake
from nabla.storage import reading

Bag = Counter[tuple[Any, ...]]


def bag(frame: DataFrame) -> Bag:
    return Counter(tuple(_plain(v) for v in row) for row in frame.collect())


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}") + 0.0
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list | tuple):
        return tuple(_plain(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, _plain(v)) for k, v in value.items()))
    return value


def feed(lake: Lake, view: str, since: int) -> tuple[Bag, Bag]:
    """(inserted, deleted) of all refreshes after a version."""
    rows = lake.changes(view, since=since)
    columns = [f"`{c}`" for c in rows.columns if c not in ("_change_type", "_version", "_timestamp")]
    inserted, deleted = Bag(), Bag()
    for (*row, kind), n in bag(rows.select(*columns, "_change_type")).items():
        (inserted if kind == "insert" else deleted)[tuple(row)] += n
    return inserted, deleted


def refreshed(lake: Lake, *views: str, mode: str = "incremental") -> Any:
    """Refresh, and check every view: equal to its query, and its feed the difference of before and after."""
    names = views or tuple(n for n, s in lake.status().items() if s.kind == "view")
    before = {name: stored(lake, name) for name in names}
    versions = {name: status.version for name, status in lake.status().items()}
    report = lake.refresh(*views, mode=mode)  # type: ignore[arg-type]
    lake.verify(*names)
    for name, old in before.items():
        inserted, deleted = stored_feed(lake, name, versions[name])
        new = stored(lake, name)
        assert inserted == new - old, f"{name}: inserted rows of the feed"
        assert deleted == old - new, f"{name}: deleted rows of the feed"
        assert report[name].inserted == inserted.total(), name
        assert report[name].deleted == deleted.total(), name
    return report


def stored(lake: Lake, name: str, part: str = "data") -> Bag:
    """The rows in the files of a view, or of its feed. Reading them without Spark is many times quicker."""
    state = lake.context.log.state()
    table = reading.read(lake.context.log.snapshot(lake.context.names(state).entry(name).parts[part]))
    columns = [[_plain(value) for value in column.to_pylist(maps_as_pydicts="strict")] for column in table.columns]
    return Counter(zip(*columns, strict=True)) if columns else Counter({(): table.num_rows})


def stored_feed(lake: Lake, name: str, since: int) -> tuple[Bag, Bag]:
    """(inserted, deleted) of all refreshes after a version, from the files of the feed."""
    inserted, deleted = Bag(), Bag()
    for (*row, kind, version, _), n in stored(lake, name, "feed").items():
        if version > since:
            (inserted if kind == "insert" else deleted)[tuple(row)] += n
    return inserted, deleted
