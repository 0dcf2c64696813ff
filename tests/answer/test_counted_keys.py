"""Counted keys prove that values are unique and that one column refers to another."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from nabla.storage.key_counts import Difference, KeyCounts, subset_of_keys
from nabla.storage.table import StoredTable


def counted(folder: Path, counts: dict[int, int]) -> KeyCounts:
    keys, numbers = (pa.array(values, pa.int64()) for values in (sorted(counts), [counts[k] for k in sorted(counts)]))
    views = [memoryview(values.buffers()[1] or b"").cast("q")[: len(values)] for values in (keys, numbers)]
    rows = pa.table({"key": keys, "count": numbers})
    return KeyCounts(StoredTable(folder), "k", 0, sum(counts.values()), views[0], views[1], rows)


def change(**counts: int) -> Difference:
    keys = [int(key.removeprefix("k")) for key in counts]
    return Difference(
        pa.table({"key": pa.array(keys, pa.int64()), "count": pa.array([*counts.values()], pa.int64())}), 1
    )


def test_keys_are_unique_if_no_count_is_above_one_after_all_changes(tmp_path: Path) -> None:
    once, twice = counted(tmp_path, {1: 1, 2: 1, 7: 1}), counted(tmp_path, {1: 1, 2: 2})
    assert once.at_most_once(0)
    assert not twice.at_most_once(0)
    once.later[1], twice.later[1] = change(k7=1), change(k2=-1, k9=1)
    assert not once.at_most_once(1)
    assert twice.at_most_once(1)
    assert counted(tmp_path, {}).at_most_once(0)


def test_a_column_refers_to_another_if_it_has_no_other_keys(tmp_path: Path) -> None:
    few, many, none = (counted(tmp_path, keys) for keys in ({1: 5}, {1: 1, 2: 1}, {}))
    assert subset_of_keys(few, many)
    assert not subset_of_keys(many, few)
    assert subset_of_keys(none, few)
    assert not subset_of_keys(few, none)
