"""A lake of somebody else can be looked at, read and refreshed, and none of its code runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

import nabla
from nabla import Lake, NablaError
from nabla.cli.main import app
from nabla.dev.testing.hostile_lake import forge
from nabla.frontends.spark_sql.code import find_code
from nabla.lake import trust
from nabla.planner.steps import Mode
from nabla.storage.catalog import Entry
from nabla.storage.lakelog import LakeLog

pytestmark = pytest.mark.spark

PLAIN = {"counted": "SELECT k, COUNT(*) AS n FROM t GROUP BY k", "lists": "SELECT k, reverse(s) AS s FROM t"}


@pytest.fixture(scope="module")
def mine(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with views, one of which calls a Python function that leaves a trace, and one that reads it."""
    path = tmp_path_factory.mktemp("mine") / "lake"
    lake = nabla.open(path, spark=spark)
    lake.create_table("t", schema="k INT, s STRING", data=[(1, "a"), (2, "b")])
    for name, query in PLAIN.items():
        lake.create_view(name, query)
    lake.context.spark.show_names()
    trace = str(path.parent / "trace")
    leave = F.udf(lambda k: open(trace, "a").write("x") + k, "int")  # noqa: SIM115
    lake.create_view("coded", spark.table("t").select(leave("k").alias("k")))
    lake.create_view("over_coded", "SELECT MAX(k) AS k FROM coded")
    with lake.transaction() as tx:
        tx.insert("t", [(2, "c")])
    (path.parent / "trace").unlink()
    return path


@pytest.fixture
def theirs(mine: Path, tmp_path: Path) -> Path:
    """The same lake as somebody gives it away: a copy in another place."""
    return Path(shutil.copytree(mine, tmp_path / "lake"))


def trace(mine: Path) -> bool:
    return (mine.parent / "trace").exists()


def refused(call: Callable[[], object]) -> NablaError:
    with pytest.raises(NablaError) as caught:
        call()
    assert caught.value.code == "NABLA_UNTRUSTED"
    return caught.value


def forge_definition(lake: Path, view: str, change: Callable[[dict[str, Any]], None]) -> None:
    def forged(entry: Entry) -> Entry:
        definition = json.loads(json.dumps(entry.definition))
        change(definition)
        return replace(entry, definition=definition)

    forge(lake, forged, view)


def test_everything_but_code_works_in_a_lake_of_somebody_else(spark: SparkSession, mine: Path, theirs: Path) -> None:
    lake = nabla.open(theirs, spark=spark)
    assert {name for name, one in lake.status().items() if one.stale} == {*PLAIN, "coded", "over_coded"}
    assert lake.read("coded").count() == 2
    error = refused(lambda: lake.refresh(mode="strict"))
    assert f"nabla trust {theirs}" in error.remedy
    assert 'view "coded"' in str(error)
    assert not lake.status()["counted"].stale
    assert lake.status()["coded"].stale
    lake.verify(*PLAIN)
    refused(lambda: lake.verify("coded"))
    lake.explain("coded")
    lake.vacuum()
    with lake.transaction() as tx:
        tx.insert("t", [(3, "d")])
    refused(lambda: lake.refresh("over_coded"))
    assert lake.refresh(*PLAIN)["lists"].mode == "incremental"
    assert not trace(mine)


def test_a_lake_that_this_user_made_runs_its_code(spark: SparkSession, mine: Path, tmp_path: Path) -> None:
    assert trust.is_trusted(LakeLog.open(mine))
    (tmp_path / "link").symlink_to(mine)
    assert trust.is_trusted(LakeLog.open(tmp_path / "link"))
    refused(lambda: nabla.open(mine, spark=spark, trust=False).refresh("coded"))


def test_whoever_opens_a_lake_may_trust_it(spark: SparkSession, theirs: Path) -> None:
    assert nabla.open(theirs, spark=spark, trust=True).refresh("over_coded")["coded"].mode == "incremental"
    refused(lambda: nabla.open(theirs, spark=spark).refresh("coded", mode="full"))
    with pytest.raises(NablaError, match="NABLA_ARGUMENT"):
        nabla.open(theirs, spark=spark, trust="yes")  # type: ignore[arg-type]


def test_the_command_trusts_and_forgets(spark: SparkSession, theirs: Path) -> None:
    lake = nabla.open(theirs, spark=spark)
    refused(lambda: lake.refresh("coded"))
    assert CliRunner().invoke(app, ["trust", str(theirs)]).exit_code == 0
    assert lake.refresh("coded")["coded"].mode == "incremental"
    listed = CliRunner().invoke(app, ["trust", "--json"])
    assert str(theirs) in json.loads(listed.stdout)["trusted"]
    assert CliRunner().invoke(app, ["trust", "--forget", str(theirs)]).exit_code == 0
    refused(lambda: nabla.open(theirs, spark=spark).refresh("coded", mode="full"))


def test_another_lake_in_the_place_of_a_trusted_one_is_not_trusted(mine: Path, tmp_path: Path) -> None:
    made = LakeLog.create(tmp_path / "lake")
    trust.remember(made)
    assert trust.is_trusted(LakeLog.open(made.path))
    shutil.rmtree(made.path)
    shutil.copytree(mine, made.path)
    assert not trust.is_trusted(LakeLog.open(made.path))


def test_the_environment_trusts_for_machines(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LakeLog.open(theirs)
    for value, answer in {
        "": False,
        "*": True,
        str(theirs): True,
        f"/nowhere, {theirs.parent}": True,
        f"{theirs}x": False,
        f"{theirs}/tables": False,
        "s3://bucket/lakes": False,
    }.items():
        monkeypatch.setenv(trust.VARIABLE, value)
        assert trust.is_trusted(log) is answer, value


def test_notes_that_others_may_write_are_not_believed(
    theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    log = LakeLog.open(theirs)
    trust.remember(log)
    folder = tmp_path / "configuration" / "nabla" / "trusted"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    folder.chmod(0o777)
    for call in (lambda: trust.is_trusted(log), lambda: trust.remember(log)):
        with pytest.raises(NablaError, match="NABLA_CONFIG"):
            call()


def test_a_lake_can_be_made_where_nothing_can_be_noted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("t", schema="k INT", data=[(1,)])
    assert lake.create_view("v", "SELECT reflect('java.lang.Math', 'abs', k) AS k FROM t").inserted == 1


def test_code_in_a_stored_expression_does_not_run(spark: SparkSession, mine: Path, theirs: Path) -> None:
    def call_java(definition: dict[str, Any]) -> None:
        text = json.dumps(definition["plan"])
        assert "Reverse" in text
        definition["plan"] = json.loads(text, object_hook=_with_java)

    forge_definition(theirs, "lists", call_java)
    lake = nabla.open(theirs, spark=spark)
    for mode in ("full", "incremental"):
        assert "java_method" in str(refused(lambda mode=mode: lake.refresh("lists", mode=mode)))  # type: ignore[misc]


def _with_java(data: dict[str, Any]) -> dict[str, Any]:
    if data.get("function") != "Reverse" and "reverse" not in str(data.get("template")):
        return data
    return {"_": "Foreign", "template": "java_method('java.lang.System', 'exit', 1)", "inputs": [], "type": "string"}


@pytest.mark.parametrize(
    "text",
    [
        "INSERT OVERWRITE DIRECTORY '{folder}/stolen' USING parquet SELECT * FROM t",
        "WITH a AS (SELECT 1 AS x) INSERT OVERWRITE DIRECTORY '{folder}/stolen' USING parquet SELECT * FROM a",
        "SELECT TRANSFORM(k) USING 'tee {folder}/stolen' AS (k, n) FROM t",
        "SET spark.sql.ansi.enabled = false",
    ],
)
def test_the_text_of_a_view_is_only_ever_a_query(spark: SparkSession, theirs: Path, text: str) -> None:
    """`verify` runs the user's own text, and a view without algebra is nothing but a text."""
    forge_definition(theirs, "counted", lambda d: d.update(sql=text.format(folder=theirs.parent)))
    lake = nabla.open(theirs, spark=spark)
    lake.refresh(*PLAIN)
    refused(lambda: lake.verify("counted"))
    assert not (theirs.parent / "stolen").exists()


SECRETS = "${env:HOME} ${system:user.home} ${spark:spark.app.name} ${spark.app.name}"


@pytest.mark.parametrize("mode", ["full", "incremental"])
def test_no_stored_expression_learns_what_the_environment_knows(spark: SparkSession, theirs: Path, mode: Mode) -> None:
    """Spark puts variables into a text before it parses it, so that no function in the text gives them away."""

    def ask(data: dict[str, Any]) -> dict[str, Any]:
        asks = data.get("function") == "Reverse" or "reverse" in str(data.get("template"))
        return {"_": "Foreign", "template": f"'{SECRETS}'", "inputs": [], "type": "string"} if asks else data

    def forged(definition: dict[str, Any]) -> None:
        definition["plan"] = json.loads(json.dumps(definition["plan"]), object_hook=ask)

    forge_definition(theirs, "lists", forged)
    lake = nabla.open(theirs, spark=spark)
    lake.refresh("lists", mode=mode)
    assert {row.s for row in lake.read("lists").collect()} <= {SECRETS, "a", "b"}


def test_no_stored_text_learns_what_the_environment_knows(spark: SparkSession, theirs: Path) -> None:
    forge_definition(theirs, "lists", lambda d: d.update(sql=f"SELECT k, '{SECRETS}' AS s FROM t"))
    with pytest.raises(NablaError, match="NABLA_MISMATCH") as differs:
        nabla.open(theirs, spark=spark).verify("lists")
    assert SECRETS in str(differs.value)


def test_a_view_that_starts_a_program_runs_in_ones_own_lake_only(spark: SparkSession, tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "lake", spark=spark)
    lake.create_table("t", schema="k INT", data=[(1,)])
    lake.create_view("piped", "SELECT TRANSFORM(k) USING 'cat' AS (k STRING) FROM t")
    lake.create_view("sampled", "SELECT * FROM t TABLESAMPLE (100 PERCENT)")
    copy = shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    with lake.transaction() as tx:
        tx.insert("t", [(2,)])
    assert lake.refresh("piped")["piped"].mode == "full"
    theirs = nabla.open(copy, spark=spark)
    assert "ScriptTransformation" in str(refused(lambda: theirs.refresh("piped", mode="full")))
    assert theirs.refresh("sampled", mode="full")["sampled"].mode == "full"


def test_a_stored_schema_loads_no_classes(spark: SparkSession, theirs: Path) -> None:
    """PySpark would import, or unpickle, the class of a user-defined type: `nabla status` looks at schemas."""
    udt = {"type": "udt", "pyClass": "this.Zen", "serializedClass": "gASVAAAA", "sqlType": "integer"}

    def forged(definition: dict[str, Any]) -> None:
        schema = json.loads(definition["schema"])
        schema["fields"][0]["type"] = {"type": "array", "elementType": udt, "containsNull": True}
        definition["schema"] = json.dumps(schema)

    forge_definition(theirs, "t", forged)
    with pytest.raises(NablaError, match="NABLA_TYPE"):
        nabla.open(theirs, spark=spark).read("t")


def test_a_stored_schema_has_no_defaults_that_are_evaluated(spark: SparkSession, theirs: Path) -> None:
    """For a column that a file lacks, Spark evaluates the text that the schema has as its default."""
    lake = nabla.open(theirs, spark=spark)
    table = theirs / lake.context.log.state().entries["t"].parts["data"].path
    text = "java_method('java.lang.System', 'setProperty', 'nabla.default', 'ran')"
    metadata = {"EXISTS_DEFAULT": text, "CURRENT_DEFAULT": text}
    commit = table / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"].append({"name": "x", "type": "string", "nullable": True, "metadata": metadata})
            action["metaData"]["schemaString"] = json.dumps(schema)

    def forged(definition: dict[str, Any]) -> None:
        schema = json.loads(definition["schema"])
        schema["fields"].append({"name": "x", "type": "string", "nullable": True, "metadata": metadata})
        definition["schema"] = json.dumps(schema)

    commit.write_text("\n".join(map(json.dumps, actions)))
    forge_definition(theirs, "t", forged)
    assert {row.x for row in nabla.open(theirs, spark=spark).read("t").collect()} == {None}
    system: Any = spark._jvm
    assert system.java.lang.System.getProperty("nabla.default") is None


def test_a_name_in_a_type_is_no_query(lake: Lake) -> None:
    """Fields of a struct may be called anything. Where there are no rows, nothing but the type is left of a table."""
    name = "a:int>) AS k, java_method('java.lang.System', 'exit', '1') AS s, CAST(NULL AS struct<b"
    lake.create_table("t", schema=f"k INT, s STRUCT<`{name}`: INT>")
    assert lake.sql("SELECT * FROM t").columns == ["k", "s"]
    assert lake.read("t").collect() == []


QUERIES = """
SELECT * FROM t
WITH a AS (SELECT id FROM t) SELECT * FROM a JOIN t USING (id)
WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT * FROM r
SELECT transform(array(1, 2), x -> x + 1), id FROM t WHERE id IN (SELECT max(id) FROM t) GROUP BY ALL
SELECT * FROM t LATERAL VIEW explode(array(1)) g AS x
SELECT * FROM t PIVOT (sum(id) FOR id IN (1, 2))
SELECT /*+ BROADCAST(t) */ sum(id) OVER w FROM t WINDOW w AS (ORDER BY id)
SELECT * FROM t, LATERAL (SELECT t.id + 1 AS x)
FROM t |> WHERE id > 1 |> AGGREGATE count(*) GROUP BY id
SELECT id FROM t EXCEPT ALL SELECT id FROM t ORDER BY 1 LIMIT 3 OFFSET 1
SELECT * FROM explode(array(1, 2)) AS e(x)
"""
CODE = """
SELECT TRANSFORM(id) USING 'cat' AS (x) FROM t
MAP id USING 'cat' FROM t
SELECT java_method('a', 'b')
SELECT system.builtin.java_method('a', 'b')
SELECT IDENTIFIER('java' || '_method')('a', 'b')
SELECT try_reflect('a', 'b')
SELECT default.some_function(1)
SELECT some_function(1)
SELECT * FROM range(CAST(reflect('a', 'b') AS INT))
SELECT sum(id) OVER w FROM t WINDOW w AS (PARTITION BY reflect('a', 'b'))
SELECT transform(array(1), x -> reflect('a', 'b'))
SELECT max(id) FILTER (WHERE reflect('a', 'b') = 'x') FROM t
SELECT * FROM t, LATERAL (SELECT reflect('a', t.id))
FROM t |> AGGREGATE sum(reflect('a', 'b'))
SELECT * FROM parquet.`/etc`
SELECT * FROM text.`/etc/passwd`
SELECT * FROM read_files('/etc')
SELECT * FROM other
SELECT * FROM spark_catalog.default.other
SELECT * FROM IDENTIFIER('oth' || 'er')
WITH other AS (SELECT * FROM other) SELECT * FROM other
SELECT * FROM t WHERE id IN (WITH other AS (SELECT 1) SELECT * FROM other) OR EXISTS (SELECT * FROM other)
FROM t INSERT INTO other SELECT 1
ADD JAR '/x.jar'
CREATE FUNCTION f AS 'x' USING JAR '/x.jar'
EXECUTE IMMEDIATE 'SELECT 1'
BEGIN SELECT 1; END
SELECT 1; SELECT 2
CALL x()
SELECT '${env:HOME}'
"""


def test_code_is_told_from_queries(spark: SparkSession) -> None:
    session = spark.newSession()
    session.range(3).createOrReplaceTempView("t")
    assert [text for text in QUERIES.strip().splitlines() if find_code(session, text) is not None] == []
    assert [text for text in CODE.strip().splitlines() if find_code(session, text) is None] == []
