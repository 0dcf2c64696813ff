"""The console's query box: queries over the lake are answered, and whatever is more is refused before Spark runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from console_lakes import unpack
from pyspark.sql import SparkSession
from starlette.testclient import TestClient

import nabla
from nabla.console.pages import Allowed
from nabla.console.server import make_app

pytestmark = pytest.mark.spark
OWN = {"origin": "http://127.0.0.1", "content-type": "application/json"}


def test_queries_are_answered_and_nothing_else_is(spark: SparkSession, tmp_path: Path) -> None:
    lake = nabla.open(unpack(tmp_path), spark=spark)
    client = TestClient(make_app(lake, Allowed(query=True)), base_url="http://127.0.0.1")

    def ask(sql: str) -> tuple[int, dict[str, object]]:
        answer = client.post("/actions/query", json={"sql": sql}, headers=OWN)
        return answer.status_code, answer.json()

    status, said = ask("SELECT who, total, CAST(NULL AS INT) AS x, '<b>' AS y FROM sums ORDER BY who LIMIT 2")
    assert status == 200
    assert said["rows"] == [["0", "12", None, "<b>"], ["1", "117", None, "<b>"]]
    assert said["columns"][1] == {"name": "total", "type": "bigint"}  # type: ignore[index]
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    refused = (
        f"SELECT * FROM text.`{secret}`",
        "SELECT java_method('java.lang.System', 'getProperty', 'user.home')",
        "CREATE TABLE x AS SELECT * FROM pay",
        "DROP VIEW sums",
        f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'out'}' USING parquet SELECT * FROM pay",
        "SELECT TRANSFORM (who) USING 'cat' FROM pay",
        "SET spark.sql.ansi.enabled=false",
    )
    for sql in refused:
        status, said = ask(sql)
        assert (status, said["error"]["code"]) == (422, "NABLA_NOT_A_QUERY"), sql  # type: ignore[index]
    assert not (tmp_path / "out").exists()
    assert ask("SELECT nothing FROM pay")[1]["error"]["code"].startswith("NABLA_")  # type: ignore[index]
    assert ask("")[0] == 422
    many = ask("SELECT a.who FROM pay a, pay b, pay c")[1]
    assert (len(many["rows"]), many["more"]) == (500, True)  # type: ignore[arg-type]
