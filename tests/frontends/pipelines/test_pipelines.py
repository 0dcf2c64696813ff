"""Reading Apache Spark Declarative Pipelines projects, without Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from nabla.errors import NablaError
from nabla.frontends.pipelines.project import Project, load_project

SPEC = """
name: shop
storage: file:///tmp/shop-storage
libraries:
  - glob:
      include: transformations/**
"""


def project(folder: Path, spec: str = SPEC, **files: str) -> Project:
    """Write a project whose files are given as `name_suffix="text"` and load it."""
    (folder / "transformations").mkdir()
    (folder / "spark-pipeline.yml").write_text(dedent(spec))
    for name, text in files.items():
        stem, suffix = name.rsplit("_", 1)
        (folder / "transformations" / f"{stem}.{suffix}").write_text(dedent(text))
    return load_project(folder)


def refused(folder: Path, code: str, spec: str = SPEC, **files: str) -> NablaError:
    with pytest.raises(NablaError) as caught:
        project(folder, spec, **files)
    assert caught.value.code == code, str(caught.value)
    assert caught.value.remedy
    return caught.value


def test_sql_and_python_files_give_elements_in_file_order(tmp_path: Path) -> None:
    shop = project(
        tmp_path,
        a_sql="""
            CREATE MATERIALIZED VIEW revenue AS
            SELECT region, SUM(amount) AS total FROM orders GROUP BY region;
            CREATE TEMPORARY VIEW recent AS SELECT * FROM orders WHERE day > DATE'2026-01-01';
        """,
        b_py="""
            from pyspark import pipelines as dp

            @dp.materialized_view
            def big_orders():
                return spark.table("orders").where("amount > 100")

            @dp.temporary_view(name="small")
            def anything():
                return spark.table("orders")
        """,
    )
    assert shop.name == "shop"
    assert shop.lake == tmp_path / "lake"
    assert [(e.name, e.kind, str(e.file), e.line) for e in shop.definitions] == [
        ("revenue", "materialized_view", "transformations/a.sql", 2),
        ("recent", "temporary_view", "transformations/a.sql", 4),
        ("big_orders", "materialized_view", "transformations/b.py", 4),
        ("small", "temporary_view", "transformations/b.py", 8),
    ]
    assert shop.definitions[0].query == "SELECT region, SUM(amount) AS total FROM orders GROUP BY region"
    assert callable(shop.definitions[2].query)


def test_semicolons_in_strings_names_and_comments_do_not_end_a_statement(tmp_path: Path) -> None:
    shop = project(
        tmp_path,
        a_sql="""
            -- first; comment
            CREATE MATERIALIZED VIEW IF NOT EXISTS `a;b` AS
            SELECT 'x;y' AS s, "d;q" AS t /* nested /* ; */ ; */ -- ; end
            FROM orders;;
            CREATE MATERIALIZED VIEW c AS WITH q AS (SELECT 1 AS n) SELECT n AS `as` FROM q
        """,
    )
    assert [e.name for e in shop.definitions] == ["a;b", "c"]
    assert str(shop.definitions[0].query).startswith("SELECT 'x;y' AS s")
    assert str(shop.definitions[0].query).endswith("FROM orders")
    assert str(shop.definitions[1].query) == "WITH q AS (SELECT 1 AS n) SELECT n AS `as` FROM q"


def test_clauses_between_name_and_query_are_read(tmp_path: Path) -> None:
    (element,) = project(
        tmp_path,
        a_sql="""
            CREATE MATERIALIZED VIEW v (id BIGINT COMMENT 'as is', total DECIMAL(12,2))
            USING delta PARTITIONED BY (id) CLUSTER BY (total) COMMENT 'totals' TBLPROPERTIES ('as' = 'b')
            AS SELECT id, total FROM orders
        """,
    ).definitions
    assert element.query == "SELECT id, total FROM orders"
    assert element.comment == "totals"
    assert element.schema == "id BIGINT COMMENT 'as is', total DECIMAL(12,2)"


def test_a_temporary_views_column_list_renames(tmp_path: Path) -> None:
    (element,) = project(
        tmp_path, a_sql="CREATE OR REPLACE TEMP VIEW v (a, `b c` COMMENT 'x, y') AS SELECT 1, 2 -- end"
    ).definitions
    assert element.query == "SELECT * FROM (\nSELECT 1, 2\n) AS renamed (`a`, `b c`)"


def test_the_projects_own_database_may_qualify_names(tmp_path: Path) -> None:
    spec = SPEC + "catalog: main\ndatabase: sales\n"
    first, second = project(
        tmp_path,
        spec,
        a_sql="""
            USE CATALOG main; USE sales;
            CREATE MATERIALIZED VIEW main.sales.a AS
            SELECT o.id FROM sales.orders o JOIN main.sales.`my lines` USING (id);
            CREATE MATERIALIZED VIEW b AS SELECT * FROM other.orders
        """,
    ).definitions
    assert (first.name, first.query) == ("a", "SELECT o.id FROM orders o JOIN `my lines` USING (id)")
    assert second.query == "SELECT * FROM other.orders"


def test_datasets_of_several_databases_share_the_lake(tmp_path: Path) -> None:
    first, second = project(
        tmp_path,
        a_sql="""
            CREATE MATERIALIZED VIEW main.bronze.a AS SELECT 1 AS n;
            CREATE MATERIALIZED VIEW main.silver.b AS SELECT * FROM bronze.a JOIN LIVE.c JOIN elsewhere.bronze.d
        """,
    ).definitions
    assert (first.name, second.name) == ("a", "b")
    assert second.query == "SELECT * FROM a JOIN c JOIN elsewhere.bronze.d"


def test_settings_reach_the_statements_after_them(tmp_path: Path) -> None:
    first, second, third = project(
        tmp_path,
        a_sql="""
            CREATE MATERIALIZED VIEW a AS SELECT 1;
            SET spark.sql.shuffle.partitions = 4;
            CREATE MATERIALIZED VIEW b AS SELECT 1;
        """,
        b_py="""
            from pyspark import pipelines as dp
            @dp.materialized_view(spark_conf={"spark.sql.ansi.enabled": "false"})
            def c(): ...
        """,
    ).definitions
    assert first.settings == {}
    assert second.settings == {"spark.sql.shuffle.partitions": "4"}
    assert third.settings == {"spark.sql.ansi.enabled": "false"}


def test_streaming_tables_have_flows_and_expectations(tmp_path: Path) -> None:
    orders, events = project(
        tmp_path,
        a_sql="""
            CREATE OR REFRESH STREAMING TABLE orders (
                id BIGINT COMMENT 'a, b',
                CONSTRAINT positive EXPECT (amount > f(0, 1)) ON VIOLATION DROP ROW,
                CONSTRAINT pk PRIMARY KEY (id),
                amount DOUBLE,
                CONSTRAINT known EXPECT (id IS NOT NULL)
            ) CLUSTER BY (id) COMMENT 'all';
            CREATE FLOW north AS INSERT INTO orders BY NAME SELECT * FROM STREAM(n);
            INSERT INTO ONCE orders SELECT * FROM old;
            CREATE STREAMING TABLE events FLOW AUTO CDC FROM STREAM source KEYS (id, k) IGNORE NULL
        """.replace(" IGNORE NULL", " SEQUENCE BY at STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (x)"),
    ).definitions
    assert (orders.kind, orders.query, orders.schema) == (
        "streaming_table",
        None,
        "id BIGINT COMMENT 'a, b', amount DOUBLE",
    )
    assert [(e.name, e.condition, e.action) for e in orders.expectations] == [
        ("positive", "amount > f(0, 1)", "drop"),
        ("known", "id IS NOT NULL", "warn"),
    ]
    assert [(f.query, f.once) for f in orders.flows] == [
        ("SELECT * FROM STREAM(n)", False),
        ("SELECT * FROM old", True),
    ]
    capture = events.flows[0].capture
    assert capture is not None
    assert (capture.keys, capture.sequence_by, capture.scd_type, capture.track_except) == (("id", "k"), "at", 2, ("x",))


def test_dlt_is_there_while_a_project_is_read(tmp_path: Path) -> None:
    (orders, sink) = project(
        tmp_path,
        a_py="""
            import dlt
            from pyspark import pipelines as dp

            @dlt.table(name="orders", cluster_by=["id"])
            @dlt.expect("one", "id > 1")
            @dlt.expect_all_or_fail({"two": "id > 2", "three": "id > 3"})
            def anything(): ...

            dp.create_sink("out", "parquet", {"path": "/tmp/x"})

            @dp.append_flow(target="out")
            def f(): ...
        """,
    ).definitions
    assert [(e.name, e.action) for e in orders.expectations] == [("one", "warn"), ("two", "fail"), ("three", "fail")]
    assert (orders.cluster_by, sink.format, sink.options) == (("id",), "parquet", {"path": "/tmp/x"})
    assert "dlt" not in sys.modules


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"a_sql": "CREATE FLOW f AS INSERT INTO nothing SELECT 1"}, "a.sql, line 1"),
        (
            {"a_sql": "CREATE MATERIALIZED VIEW v AS SELECT 1 AS n;\n\nINSERT INTO v SELECT 1"},
            "a.sql, line 3; transformations/a.sql, line 1",
        ),
        ({"a_py": "from pyspark import pipelines as dp\n@dp.append_flow(target='s')\ndef f(): ..."}, "a.py, line 2"),
    ],
)
def test_a_flow_without_a_target_is_refused_with_its_line(tmp_path: Path, files: dict[str, str], place: str) -> None:
    assert refused(tmp_path, "NABLA_FLOW", **files).place == f"transformations/{place}"


def test_two_flows_of_one_name_are_refused(tmp_path: Path) -> None:
    text = (
        "CREATE STREAMING TABLE s;\nCREATE FLOW f AS INSERT INTO s SELECT 1;\nCREATE FLOW F AS INSERT INTO s SELECT 2"
    )
    error = refused(tmp_path, "NABLA_DUPLICATE_NAME", a_sql=text)
    assert error.place == "transformations/a.sql, line 2; transformations/a.sql, line 3"


def test_a_column_named_stream_is_no_stream(tmp_path: Path) -> None:
    (element,) = project(tmp_path, a_sql="CREATE MATERIALIZED VIEW a AS SELECT x, stream s FROM t").definitions
    assert element.name == "a"


def test_a_name_defined_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    error = refused(
        tmp_path,
        "NABLA_DUPLICATE_NAME",
        a_sql="CREATE MATERIALIZED VIEW v AS SELECT 1",
        b_sql="\nCREATE TEMPORARY VIEW V AS SELECT 1",
    )
    assert error.place == "transformations/a.sql, line 1; transformations/b.sql, line 2"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "CREATE TABLE t (id INT)",
        "CREATE MATERIALIZED VIEW v",
        "CREATE MATERIALIZED VIEW v AS",
        "DROP VIEW v",
    ],
)
def test_other_statements_are_refused(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, "NABLA_SQL_SYNTAX", a_sql=text).place == "transformations/a.sql, line 1"


def test_an_open_quote_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path, "NABLA_SQL_SYNTAX", a_sql="CREATE MATERIALIZED VIEW v AS SELECT 'x").place


def test_an_error_in_a_python_file_names_its_line(tmp_path: Path) -> None:
    error = refused(tmp_path, "NABLA_PROJECT_PYTHON", a_py="x = 1\n\nraise ValueError('no such thing')")
    assert "ValueError: no such thing" in error.message
    assert error.place == "transformations/a.py, line 3"


def test_a_syntax_error_in_a_python_file_names_its_line(tmp_path: Path) -> None:
    assert refused(tmp_path, "NABLA_PROJECT_PYTHON", a_py="x = 1\ny = (").place == "transformations/a.py, line 2"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ("name: x\nstorage: y\nlake: z", 'unknown key "lake"'),
        ("name: x", '"storage" is missing'),
        ("- a\n- b", "not a mapping"),
        ("name: x\nstorage: y\nconfiguration:\n  a: 1", "not text"),
        ("name: x\nstorage: y\nlibraries:\n  - glob: {include: 'a/**/*.py'}", "too complex"),
        ("name: x\nstorage: y\nlibraries:\n  - a.py", "not a glob"),
        ("name: x\nstorage: y\nconfiguration: {nabla.mode: fast}", "nabla.mode"),
        ("name: x\nstorage: y\nconfiguration: {nabla.mod: full}", "unknown option"),
        ("name: [", "cannot be read"),
    ],
)
def test_a_wrong_specification_is_refused(tmp_path: Path, spec: str, what: str) -> None:
    assert what in refused(tmp_path, "NABLA_PROJECT", spec).message


def test_a_folder_without_specification_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NablaError, match="NABLA_PROJECT"):
        load_project(tmp_path)


def test_a_project_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    project(tmp_path, a_sql="CREATE MATERIALIZED VIEW v AS SELECT 1")
    assert load_project(tmp_path / "transformations").spec.folder == tmp_path


def test_options_are_read_from_the_configuration(tmp_path: Path) -> None:
    spec = SPEC + dedent("""
        configuration:
          nabla.lake: data/lake
          nabla.mode: strict
          nabla.table.orders: data/orders.csv
          nabla.table.orders.schema: id BIGINT, amount DECIMAL(12,2)
          nabla.table.orders.key: id, day
          spark.sql.shuffle.partitions: "4"
    """)
    shop = project(tmp_path, spec)
    assert shop.lake == tmp_path / "data/lake"
    assert shop.spec.mode == "strict"
    assert shop.spec.spark_settings == {"spark.sql.shuffle.partitions": "4"}
    (orders,) = shop.spec.tables
    assert (orders.name, orders.path, orders.schema, orders.key) == (
        "orders",
        tmp_path / "data/orders.csv",
        "id BIGINT, amount DECIMAL(12,2)",
        ("id", "day"),
    )


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "notes.txt").write_text("x")
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    with pytest.raises(NablaError, match=r"\.sql, \.py and \.rules"):
        load_project(tmp_path)


def test_a_file_of_rules_defines_its_predicates(tmp_path: Path) -> None:
    shop = project(
        tmp_path,
        graph_rules="""
            % reachability
            path(X, Y) :- edge(X, Y).
            path(X, Y) :- edge(X, Z), path(Z, Y).
            far(X) :- path(X, _), not edge(X, _).
        """,
    )
    (graph,) = shop.definitions
    assert (graph.name, graph.kind, graph.place) == ("graph", "rules", "transformations/graph.rules, line 3")
    assert graph.views == ("path", "far")


def test_faults_of_rules_are_placed_in_their_file(tmp_path: Path) -> None:
    error = refused(tmp_path, "NABLA_RULES_SYNTAX", graph_rules="path(X, Y) :- edge(X Y).")
    assert error.place == "transformations/graph.rules, line 1, column 22"


def test_a_predicate_and_a_view_cannot_share_a_name(tmp_path: Path) -> None:
    error = refused(
        tmp_path,
        "NABLA_DUPLICATE_NAME",
        a_sql="CREATE MATERIALIZED VIEW path AS SELECT 1 AS one",
        graph_rules="path(X, Y) :- edge(X, Y).",
    )
    assert error.place == "transformations/a.sql, line 1; transformations/graph.rules, line 1"
