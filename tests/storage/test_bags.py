"""Bag arithmetic on Arrow tables against a Counter of Python rows."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st
from storage_oracle import bag, some, tables, with_counts

from nabla.storage import bags


@some
@given(tables(max_rows=16), st.lists(st.integers(-2, 2), min_size=16, max_size=16))
def test_consolidation_sums_equal_rows_and_drops_zeros(drawn: tuple[pa.Table, ...], counts: list[int]) -> None:
    table = with_counts(drawn[0], counts)
    result = bags.consolidate(table)
    assert bag(result) == bag(table)
    assert result.num_rows == len(bag(table)), "a row appears once"
    assert 0 not in result[bags.N].to_pylist()


@some
@given(tables(number=2), st.lists(st.integers(1, 3), min_size=12, max_size=12))
def test_subtraction_takes_the_asked_number_of_copies(drawn: tuple[pa.Table, ...], counts: list[int]) -> None:
    table, rows = drawn
    wanted = bags.consolidate(with_counts(rows, counts))
    remain, found = bags.subtract(table, wanted)
    have, want = bag(table), bag(wanted)
    assert bag(table.filter(remain)) == have - want
    taken = bag(wanted.set_column(wanted.num_columns - 1, bags.N, found))
    assert taken == have & want
    assert len(found) == wanted.num_rows


@some
@given(tables(number=2))
def test_copies_are_counted(drawn: tuple[pa.Table, ...]) -> None:
    table, rows = drawn
    distinct = bags.consolidate(bags.counted(rows)).drop_columns([bags.N])
    found = bags.counts(table, distinct)
    want = bag(distinct)
    assert bag(with_counts(distinct, found.to_pylist())) == Counter({r: n for r, n in bag(table).items() if r in want})


@some
@given(tables())
def test_a_negated_table_cancels_the_table(drawn: tuple[pa.Table, ...]) -> None:
    table = bags.counted(drawn[0])
    assert bags.consolidate(pa.concat_tables([table, bags.negated(table)])).num_rows == 0


@some
@given(tables(number=2))
def test_slices_and_chunks_do_not_matter(drawn: tuple[pa.Table, ...]) -> None:
    whole = bags.counted(pa.concat_tables([drawn[0], drawn[1], drawn[0].slice(1)]))
    assert bag(bags.consolidate(whole.slice(2))) == bag(whole.slice(2))


def test_a_table_without_columns_is_a_number_of_rows() -> None:
    result = bags.consolidate(pa.table({bags.N: [2, 3, -1]}))
    assert result.to_pylist() == [{bags.N: 4}]


def test_types_that_arrow_cannot_group_are_handled() -> None:
    table = pa.table(
        {
            "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
            "half": pa.array([0.0, 1.0, -0.0], pa.float16()),
            "small": pa.array([Decimal(1), Decimal(2), Decimal(1)], pa.decimal64(9, 0)),
            "nothing": pa.nulls(3),
        }
    )
    assert bags.consolidate(bags.counted(table))[bags.N].to_pylist() == [2, 1]


def test_a_few_rows_are_found_in_a_large_table() -> None:
    size = 200_000
    table = pa.table({"group": pa.array([i % 3 for i in range(size)]), "id": pa.arange(0, size)})
    wanted = bags.counted(pa.table({"group": [0, 0], "id": [3, 4]}))  # id 4 is in group 1
    remain, found = bags.subtract(table, wanted)
    assert found.to_pylist() == [1, 0]
    assert pc.sum(remain).as_py() == size - 1
    assert bags.candidates(table, wanted).to_pylist() == [3, 4]
    assert bags.deciding(wanted) == ["id", "group"]


def test_counts_stay_with_their_rows_whatever_order_arrow_groups_in() -> None:
    """Arrow's groups come in no particular order: with NULLs in several columns it is not that of appearance."""
    for seed in range(150):
        rng = random.Random(seed)
        rows = [tuple(rng.choice([None, 1, 2, 4]) for _ in range(5)) for _ in range(rng.randrange(1, 25))]
        counts = [rng.choice([-1, 1]) for _ in rows]
        columns = [pa.array([row[i] for row in rows], pa.int32()) for i in range(5)]
        table = pa.table([*columns, pa.array(counts, pa.int64())], names=[*"abcde", bags.N])
        expected: Counter[tuple[int | None, ...]] = Counter()
        for row, n in zip(rows, counts, strict=True):
            expected[row] += n
        found = {tuple(r.values())[:5]: r[bags.N] for r in bags.consolidate(table).to_pylist()}
        assert found == {row: n for row, n in expected.items() if n}, seed
