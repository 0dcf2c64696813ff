"""Every reason code, from a query that causes it to what a user reads: in explain, in reports, in errors of strict mode."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import nabla
from nabla.algebra.nodes import Generate
from nabla.calculus import laws
from nabla.errors import NotIncremental
from nabla.lake.facade import Lake

SOURCE = Path(__file__).parents[2] / "src/nabla"


@dataclass(frozen=True)
class Case:
    """`lawless` names an operator whose law is taken away: all that queries can contain have one."""

    name: str
    sql: str
    code: str
    what: str
    place: str
    remedy: str
    lawless: type | None = None


ORDER = "Add an ORDER BY that decides which rows are kept."
STORE = "Store the value in a table, or move it out of the view."
AGAIN = "Every refresh recomputes the view and compares; write this part differently to have it maintained."
EACH_TIME = "gives another value each time it is evaluated"

CASES = (
    Case(
        "limit",
        "SELECT id FROM t LIMIT 100",
        "NABLA_LIMIT_WITHOUT_ORDER",
        "LIMIT 100 without ORDER BY may return any rows",
        "LIMIT",
        ORDER,
    ),
    Case(
        "offset",
        "SELECT id FROM t OFFSET 1",
        "NABLA_LIMIT_WITHOUT_ORDER",
        "OFFSET 1 without ORDER BY may return any rows",
        "OFFSET",
        ORDER,
    ),
    Case(
        "column",
        "SELECT id, uuid() IS NULL AS never FROM t",
        "NABLA_NONDETERMINISTIC",
        f"(uuid() IS NULL) {EACH_TIME}",
        'column "never"',
        STORE,
    ),
    Case(
        "clock",
        "SELECT id, year(current_timestamp()) > 2000 AS recent FROM t",
        "NABLA_TIME_DEPENDENT",
        "current_timestamp() is part of what is computed, not of which rows are kept",
        'column "recent"',
        "Compare with it in WHERE or HAVING only; a value that moves by itself changes every row.",
    ),
    Case(
        "condition",
        "SELECT id FROM t WHERE rand() >= 0.0D",
        "NABLA_NONDETERMINISTIC",
        f"(rand() >= 0.0D) {EACH_TIME}",
        "WHERE or HAVING",
        STORE,
    ),
    Case(
        "generator",
        "SELECT id, explode(array(rand() < 2.0D)) AS sure FROM t",
        "NABLA_NONDETERMINISTIC",
        f"explode(array((rand() < 2.0D))) {EACH_TIME}",
        "generator",
        STORE,
    ),
    Case(
        "map",
        "SELECT m, COUNT(*) AS n FROM t GROUP BY m",
        "NABLA_NOT_COMPARABLE",
        'groups of "m" cannot be looked up: Spark does not compare values of type map<string,int>',
        "GROUP BY or PARTITION BY",
        "Group by an array of its entries: map_entries(...).",
    ),
    Case(
        "collation",
        "SELECT CAST(id AS STRING) COLLATE UTF8_LCASE AS c, COUNT(*) AS n FROM t GROUP BY c",
        "NABLA_COLLATION",
        "c is compared by the collation UTF8_LCASE, and stored without it",
        'column "c"',
        "Compare what tells values apart by itself, such as lower(...), or leave the collation to those who read.",
    ),
    Case(
        "span",
        "SELECT CAST(m AS STRING) AS m, COUNT(*) AS n FROM (SELECT make_ym_interval(0, id) AS m FROM t) GROUP BY m",
        "NABLA_HIDDEN_TYPE",
        'the hidden state would have a column "m" of type interval year to month, which no Delta table stores',
        "Aggregate",
        "Turn it into a number or a text before rows are grouped, ordered or cut off.",
    ),
    Case(
        "sample",
        "SELECT id\nFROM t TABLESAMPLE (100 PERCENT)",
        "NABLA_UNSUPPORTED_OPERATOR",
        "there is no algebra for the operator Sample",
        "line 2, column 6",
        AGAIN,
    ),
    Case(
        "lawless",
        "SELECT id, explode(array(1, 2)) AS n FROM t",
        "NABLA_NO_RULE",
        "there is no rule for Generate",
        "Generate",
        AGAIN,
        Generate,
    ),
)


def test_every_reason_code_has_a_case() -> None:
    obstacles = (SOURCE / "calculus/obstacles.py").read_text(encoding="utf-8")
    codes = set(re.findall(r'"(NABLA_\w+)"', obstacles))
    for file in (SOURCE / "frontends").rglob("*.py"):
        codes |= set(re.findall(r'\bOpaque\([^)]*"(NABLA_\w+)"', file.read_text(encoding="utf-8")))
    assert codes == {case.code for case in CASES}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Lake:
    lake = nabla.open(tmp_path_factory.mktemp("reasons") / "lake", spark=spark)
    lake.create_table("t", schema="id INT, m MAP<STRING, INT>", key="id", data=[(1, {"a": 1}), (2, None)])
    return lake


_ids = itertools.count(10)


@pytest.mark.spark
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reason_is_shown_wherever_the_view_is(case: Case, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    if case.lawless is not None:
        monkeypatch.delitem(laws._BY_OPERATOR, case.lawless)
    lake.create_view(case.name, case.sql)
    with lake.transaction() as tx:
        tx.insert("t", [(next(_ids), {"b": 2})])
    said = f"{case.code}: {case.what} ({case.place}). {case.remedy}"

    explanation = lake.explain(case.name)
    assert said in explanation.obstacles
    assert said in str(explanation)
    reason = explanation.to_dict()["reasons"][0]
    assert reason == {"code": case.code, "what": case.what, "place": case.place, "remedy": case.remedy}
    assert explanation.mode == "full"
    assert said in lake.status()[case.name].obstacles

    with pytest.raises(NotIncremental) as refused:
        lake.refresh(case.name, mode="strict")
    assert str(refused.value) == f'{case.code}: {case.what} (view "{case.name}", {case.place}). {case.remedy}'

    report = lake.refresh(case.name, mode="incremental")[case.name]
    assert (report.mode, report.reason) == ("full", said)
