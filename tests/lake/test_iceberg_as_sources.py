"""Iceberg tables as tables of a lake, on histories that pyiceberg writes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from comparing import bag, refreshed
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import LongType, StringType

from nabla.errors import NablaError
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64()), ("kind", pa.string())])


def rows(*found: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(("id", "kind"), row, strict=True)) for row in found], SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """A catalog in SQLite, which pyiceberg finds by its usual configuration."""
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    for name, text in properties.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__TRADE__{name.upper()}", text)
    found = load_catalog("trade", **properties)
    found.create_namespace("fx")
    yield found
    found.close()


def test_a_random_history_of_pyiceberg_is_followed_exactly(lake: Lake, catalog: Catalog) -> None:
    table = catalog.create_table("fx.rates", SCHEMA)
    table.append(rows((1, "a"), (2, "b"), (2, "b")))
    lake.register("rates", iceberg="trade.fx.rates")
    lake.create_view("kinds", "SELECT kind, COUNT(*) AS n FROM rates GROUP BY kind")
    lake.create_view("pairs", "SELECT l.id, r.kind FROM rates l JOIN rates r ON l.id = r.id")
    chance, states, snapshots = random.Random(11), {0: bag(lake.read("rates"))}, [table.current_snapshot().snapshot_id]
    for step in [
        "append",
        "delete",
        "upsert",
        "append",
        "overwrite",
        "append",
        "partition",
        "append",
        "rewrite",
        "rollback",
        "delete",
    ]:
        some = [(chance.randint(0, 5), chance.choice("abc")) for _ in range(4)]
        before = lake.status()["rates"].version
        match step:
            case "append":
                table.append(rows(*some))
            case "delete":
                table.delete(f"id = {some[0][0]}")
            case "upsert":
                table.overwrite(rows(*some), overwrite_filter=f"id <= {some[1][0]}")
            case "overwrite":
                table.overwrite(rows(*some))
            case "partition":
                with table.update_spec() as spec:
                    spec.add_identity("kind")
            case "rewrite":  # a compaction: the same rows in one file
                table.overwrite(table.scan().to_arrow())
            case "rollback":
                table.manage_snapshots().set_current_snapshot(snapshots[-3]).commit()
                table = catalog.load_table("fx.rates")
        snapshots.append(table.current_snapshot().snapshot_id)
        refreshed(lake, mode="incremental")
        now = Counter((row["id"], row["kind"]) for row in table.scan().to_arrow().to_pylist())
        assert bag(lake.read("rates")) == now, step
        if step in ("rewrite", "partition"):
            assert lake.changes("rates", since=before).count() == 0
        states[lake.status()["rates"].version] = now
    for old, new in pairwise(sorted(states)):
        change: Counter[tuple[Any, ...]] = Counter()
        for row in lake.changes("rates", since=old).where(f"_version <= {new}").collect():
            change[row[0], row[1]] += 1 if row["_change_type"] == "insert" else -1
        change.subtract(states[new] - states[old])
        change.update(states[old] - states[new])
        assert not any(change.values())
        assert bag(lake.read("rates", version=old)) == states[old]
    assert lake.refresh()["kinds"].mode == "skip"


def test_only_data_files_that_changed_are_read(lake: Lake, catalog: Catalog) -> None:
    table = catalog.create_table("fx.rates", SCHEMA)
    with table.update_spec() as spec:
        spec.add_identity("id")
    table.append(rows(*((i % 10, str(i)) for i in range(1000))))
    lake.register("rates", iceberg="trade.fx.rates", key="kind")
    lake.create_view("big", "SELECT id, COUNT(*) AS n FROM rates GROUP BY id")
    table.delete("id = 3 AND kind < '5'")
    refreshed(lake, mode="incremental")
    info = lake.context.log.state().entries["rates"].facts["origin"]["last"]
    assert info["pieces"] == 2  # the data file of one partition was written anew


def test_columns_are_known_by_their_ids_and_tables_by_theirs(lake: Lake, catalog: Catalog) -> None:
    table = catalog.create_table("fx.rates", SCHEMA)
    table.append(rows((1, "a"), (2, "b")))
    lake.register("rates", iceberg="trade.fx.rates")
    lake.create_view("kinds", "SELECT id, kind FROM rates")
    with table.update_schema() as update:
        update.add_column("more", LongType())
    assert refreshed(lake)["kinds"].mode == "skip"
    with table.update_schema() as update:
        update.delete_column("kind")
    assert "NABLA_SCHEMA_CHANGED" in lake.refresh()["kinds"].reason
    with table.update_schema() as update:  # another column of the same name
        update.add_column("kind", StringType())
    refreshed(lake)
    assert bag(lake.read("kinds")) == {(1, None): 1, (2, None): 1}
    catalog.drop_table("fx.rates")
    assert "NABLA_AWAY" in lake.refresh()["kinds"].reason
    assert "NABLA_AWAY" in lake.status()["rates"].problem
    catalog.create_table("fx.rates", SCHEMA).append(rows((7, "z")))
    refreshed(lake)
    assert bag(lake.read("kinds")) == {(7, "z"): 1}
    assert any("created again" in event.reason for event in lake.history("rates"))


def test_an_unknown_catalog_or_table_leaves_nothing_behind(lake: Lake, catalog: Catalog) -> None:
    catalog.create_table("fx.times", pa.schema([("at", pa.time64("us"))]))
    for name, code in (
        ("nowhere.fx.rates", "NABLA_AWAY"),
        ("trade.fx.nothing", "NABLA_AWAY"),
        ("trade.nothing.rates", "NABLA_AWAY"),
        ("trade", "NABLA_SOURCE"),
        ("trade..rates", "NABLA_SOURCE"),
        ("trade.fx.times", "NABLA_TYPE"),
    ):
        with pytest.raises(NablaError) as error:
            lake.register("rates", iceberg=name)
        assert error.value.code == code, name
        assert error.value.remedy
    assert "rates" not in lake.status()
