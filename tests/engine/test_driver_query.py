"""What the driver computes or leaves out by itself: always what the specification of the algebra says."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from small_data import Case, arrow, arrow_schema, cases

from nabla.algebra.calls import Call, Named
from nabla.algebra.expressions import Column, Literal
from nabla.algebra.nodes import (
    WEIGHT,
    Aggregate,
    At,
    Consolidate,
    Constant,
    Distinct,
    Filter,
    Generate,
    IntersectAll,
    Join,
    Node,
    Project,
    Scan,
)
from nabla.algebra.parse import read
from nabla.algebra.reference.evaluator import evaluate_expression
from nabla.algebra.reference.evaluator.exact import exact_type
from nabla.algebra.reference.hash_joins import HashRun
from nabla.algebra.reference.interpreter import bag_of, evaluate
from nabla.dev.testing.random_plans import ALL, CORE, random_scenario
from nabla.engine.driver import key_lookup as lookup_module
from nabla.engine.driver.driver_query import answer, run
from nabla.engine.driver.duckdb_expressions import spell
from nabla.engine.driver.duckdb_sql import to_duckdb
from nabla.engine.driver.duckdb_types import NotExact
from nabla.engine.driver.value_bounds import ValueBounds

CASES = 30


def test_hash_joins_give_what_loops_give() -> None:
    kinds = set()
    for seed in range(40_000, 40_150):
        scenario = random_scenario(seed, ALL)
        kinds |= {node.kind for node in scenario.plan.walk() if isinstance(node, Join)}
        assert HashRun(scenario.database)(scenario.plan) == evaluate(scenario.plan, scenario.database), f"seed {seed}"
    assert kinds == {"inner", "left", "right", "full", "semi", "anti"}


def test_what_is_known_of_a_query_is_a_superset(tmp_path: Path) -> None:
    pieces = 0
    for case in cases(50_000, CASES, tmp_path):
        known = ValueBounds(case.held)
        for node in case.query.walk():
            rows = evaluate(node, case.database)
            names = [c.name for c in node.columns]
            for piece in known.pieces(node):
                pieces += 1
                shared = [n for n in piece.column_names if n in names]
                there = set(zip(*(piece[n].to_pylist() for n in shared), strict=True))
                mine = {tuple(row[names.index(n)] for n in shared) for row in rows}
                assert mine <= there, f"seed {case.seed}: {mine - there} is not among what is known"
    assert pieces > CASES


@pytest.mark.parametrize("smallest", [0, 1_000_000], ids=["looked up by values", "read whole"])
def test_a_query_over_what_was_looked_up_gives_the_same(
    smallest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup_module, "SMALLEST", smallest)
    found = 0
    for case in cases(60_000, CASES, tmp_path):
        lookup = case.lookup()
        reduced = lookup.reduce(case.query)
        found += bool(lookup.found)
        assert reduced.columns == case.query.columns
        assert reduced.signed == case.query.signed
        expected = evaluate(case.query, case.database)
        assert evaluate(reduced, case.with_found(lookup)) == expected, f"seed {case.seed}"
    assert found > CASES / 10, "hardly anything was looked up"


@pytest.mark.parametrize("features", [CORE, ALL], ids=["core", "all"])
def test_answers_of_the_driver_are_those_of_the_algebra(features: frozenset[str], tmp_path: Path) -> None:
    answered = 0
    for case in cases(70_000, 2 * CASES, tmp_path, features):
        if not all(exact_type(c.type) for c in case.query.columns) or not case.query.columns:
            continue
        schema = arrow_schema(case.query.columns, weights=True)
        table = answer(case.query, lambda scan, case=case: _held(scan, case), schema)
        if table is None:
            continue
        answered += 1
        columns = [column.to_pylist() for column in table.columns]
        found = bag_of((row[:-1], row[-1]) for row in zip(*columns, strict=True))
        assert found == evaluate(case.query, case.database), f"seed {case.seed}"
    assert answered > CASES / 10, "hardly anything was answered"


def test_numbers_without_other_columns_are_counted() -> None:
    """`SELECT … FROM t, explode(sequence(1, 3))`: the generator stands beside a row without columns."""
    nothing = Constant((), ((),))
    numbers = Generate(nothing, read("explode(sequence(1, 3))", {}, "int"), (Column("n#1", "int"),))
    found = run(to_duckdb(numbers, lambda scan: scan.table), {})
    assert found is not None
    assert [tuple(row.values()) for row in found.to_pylist()] == [(1,), (2,), (3,)]


@pytest.mark.parametrize("values", [[-0.0, 0.0, math.nan, math.nan, None], [0.0, None, math.nan, -0.0, -0.0]])
def test_zeros_of_both_signs_are_one_group_which_shows_no_sign(values: list[float | None]) -> None:
    """As in Spark, whichever of them comes first."""
    scan = Scan("t", At.NEW, (Column("x#1", "double"),), ("x",))
    counted = Aggregate(scan, ("x#1",), (Call(Column("n#2", "bigint"), "count", ()),))
    for query in (Distinct(scan), counted, IntersectAll(scan, scan), Consolidate(scan)):
        found = run(to_duckdb(query, lambda scan: scan.table), {"t": pa.table({"x": pa.array(values, pa.float64())})})
        assert found is not None
        groups = {str(value) for value in found.column(0).to_pylist()}
        assert groups == {"0.0", "nan", "None"}, type(query)


def test_a_table_without_columns_is_left_to_spark() -> None:
    rows = pa.table({"x": [1, 2]})
    query = Project(Scan("t", At.NEW, (), ()), (Named(Column("one#1", "int"), Literal("1", "int")),))
    schema = pa.schema([("one", pa.int32())])
    assert answer(query, lambda _: rows.select([]), schema) is None
    found = answer(query, lambda _: rows, schema)
    assert found is not None
    assert found.column(0).to_pylist() == [1, 1]


def test_totals_are_joined_on_the_driver_however_often_they_changed() -> None:
    """A state is a log: after six changes a total has 13 entries, and is still one row. TPC-DS q09 joins 15 totals."""
    query: Node | None = None
    for number in range(15):
        total, copies = (Column(f"{name}#{number}", "bigint") for name in ("total", "copies"))
        log = Scan(f"s{number}", At.NEW, (total, WEIGHT), ("c0", "c1"))
        summed = Aggregate(log, (total.name,), (Call(copies, "sum", (WEIGHT.ref,)),))
        there = Filter(summed, (read(f"NOT (`{copies.name}` = 0L)", {copies.name: ("bigint", False)}),))
        state = Project(there, (Named(total, total.ref),))
        query = state if query is None else Join(query, state)
    assert query is not None
    rows = pa.table({"c0": [n for n in range(7) for _ in range(2)][:13], "c1": [1, -1] * 6 + [1]})
    found = answer(query, lambda _: rows, pa.schema([(c.name, pa.int64()) for c in query.columns]))
    assert found is not None
    assert [set(row.values()) for row in found.to_pylist()] == [{6}]


def test_a_query_that_duckdb_refuses_is_said_and_left_to_spark() -> None:
    with pytest.warns(RuntimeWarning, match="report this"):
        assert run("SELECT , 1", {}) is None


def _held(scan: Scan, case: Case) -> pa.Table:
    return arrow(case.database.read(scan.table, scan.at), scan, case.database, weights=scan.signed)


def _is_exact(text: str) -> bool:
    try:
        spell(read(text, {name: (kind, True) for name, kind in TYPES.items()}))
    except NotExact:
        return False
    return True


TYPES = {"d": "date", "s": "string", "x": "decimal(15,2)", "n": "int", "f": "double", "t": "timestamp"}


@pytest.mark.parametrize(
    "text",
    [
        "`n` + 1 > 3 AND `s` IN ('a', 'b')",
        "0.5BD * `x`",
        "`d` < (DATE '1994-01-01' + INTERVAL '1' YEAR)",
        "`d` <= date_add(DATE '1998-12-01', (- date_part('DAY', INTERVAL '90' DAY)))",
        "`s` LIKE 'forest%'",
        "substring(`s`, 1, 2)",
        "year(`d`)",
        "between(`n`, 1, 5)",
        "(`n` + 1) % 4 = -1",
        "CASE WHEN `n` IS NULL THEN 0L ELSE CAST(`n` AS BIGINT) END",
        "GREATEST(`d`, DATE '1994-01-01', NULL)",
        "`f` > `f`",
        "CAST(`n` AS STRING)",
        "`t` > `t`",
        "trim(`s`)",
    ],
)
def test_plain_expressions_are_exact(text: str) -> None:
    assert _is_exact(text)


@pytest.mark.parametrize(
    "text",
    [
        "CAST(`s` AS INT)",
        "CAST(`x` AS STRING)",
        "CAST(`t` AS DATE)",
        "hour(`t`)",
        "upper(`s`)",
        "`s` LIKE `s`",
        r"`s` LIKE 'a\\_%'",
        "substring(`s`, `n`, 2)",
        "date_format(`d`, 'yyyy')",
        "rand() > 0.5",
        "`x` % 2",
        "`s` = 1",
        "LEAST(`s`, NULL, 1)",
        "`d` > '2024-01-01'",
    ],
)
def test_expressions_that_leave_room_for_interpretation_are_not(text: str) -> None:
    assert not _is_exact(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("`n` + 1 > 3", 2**31 - 1),
        ("`n` - 1 < 3", -(2**31)),
        ("3 < 1 + `n`", 2**31 - 1),
        ("1 - `n` > 3", -(2**31)),
        ("-`n` > 3", -(2**31)),
        ("`n` * 2 = 4", 2**30),
        ("`b` + 1L > 3L", 2**63 - 1),
        ("-`b` < 3L", -(2**63)),
        ("`b` * 4L <> 4L", 2**62),
    ],
)
def test_no_comparison_hides_an_overflow(text: str, value: int) -> None:
    condition = spell(read(text, {"n": ("int", True), "b": ("bigint", True)}))
    table = pa.table({"n": pa.array([value if "n" in text else 0], pa.int32()), "b": pa.array([value], pa.int64())})
    assert run(f"SELECT * FROM t WHERE {condition}", {"t": table}) is None
    assert run(f"SELECT * FROM t WHERE {condition}", {"t": table.slice(0, 0)}).num_rows == 0


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("DATE '2024-01-31' + INTERVAL '1' MONTH", date(2024, 2, 29)),
        ("DATE '2024-02-29' + INTERVAL '1' YEAR", date(2025, 2, 28)),
        ("DATE '2024-03-01' - INTERVAL '1' DAY", date(2024, 2, 29)),
        ("DATE '2024-01-15' - INTERVAL '13' MONTH", date(2022, 12, 15)),
    ],
)
def test_dates_are_moved_as_calendars_say(text: str, day: date) -> None:
    assert evaluate_expression(text, {}) == day


def test_a_query_reaches_no_file(tmp_path: Path) -> None:
    """Whatever somebody writes into the definitions of a lake, DuckDB neither reads nor writes outside of the query."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for text in (
        f"SELECT 1; COPY (SELECT 1) TO '{tmp_path}/stolen'",
        f"SELECT * FROM read_text('{secret}')",
        f"ATTACH '{tmp_path}/stolen'",
        "SET enable_external_access = true",
    ):
        assert run(text, {}) is None, text
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    with pytest.raises(NotExact):
        spell(Literal("true' AS BOOLEAN); COPY (SELECT 1) TO 'stolen'; --", "boolean"))
