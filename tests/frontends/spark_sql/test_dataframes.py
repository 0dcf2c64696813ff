"""Views that are PySpark DataFrames."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType
from pyspark.sql.window import Window
from roundtrip import assert_same

from nabla.errors import NablaError
from nabla.frontends.spark_sql.define import define

pytestmark = pytest.mark.spark


def joined_with_itself(spark):
    frame = spark.table("t").select(F.nvl(F.col("a"), F.lit(0)).alias("k"), "b")
    return frame.alias("l").join(frame.alias("r"), F.col("l.k") == F.col("r.k")).select("l.b", F.col("r.k").alias("k"))


def over_a_view_of_the_session(spark):
    spark.table("t").where("a > 1").createOrReplaceTempView("of_the_session")
    return spark.table("of_the_session").groupBy("b").count()


FRAMES = {
    "filter and select": lambda s: s.table("t").where(F.col("c") > 1).select("a", (F.col("c") * 2).alias("x")),
    "with columns": lambda s: s.table("t").withColumn("x", F.upper("b")).drop("d").withColumnRenamed("c", "y"),
    "group": lambda s: s.table("t").groupBy("b").agg(F.sum("a").alias("s"), F.countDistinct("c").alias("n")),
    "join using": lambda s: s.table("t").join(s.table("u"), "a", "left"),
    "joined with itself": joined_with_itself,
    "distinct": lambda s: s.table("t").distinct(),
    "drop duplicates": lambda s: s.table("u").dropDuplicates(["a", "e"]),
    "drop duplicates of a part": lambda s: s.table("t").select("a", F.lit(1).alias("one")).dropDuplicates(["a"]),
    "drop rows with unknowns": lambda s: s.table("t").dropna(),
    "drop rows with few knowns": lambda s: s.table("t").dropna(thresh=3).select("a", "b"),
    "a field more": lambda s: s.table("t").select(F.struct("a", "b").withField("c", F.col("c")).alias("x")),
    "a field less": lambda s: s.table("t").select(F.struct("a", "b").dropFields("b").alias("x")),
    "union by name": lambda s: s.table("t").select("a", "b").unionByName(s.table("u").withColumnRenamed("e", "b")),
    "except all": lambda s: s.table("u").select("a").exceptAll(s.table("t").select("a")),
    "pivot": lambda s: s.table("sales").groupBy("region").pivot("year", [2023, 2024]).sum("amount"),
    "cube": lambda s: s.table("sales").cube("region", "year").count(),
    "window": lambda s: s.table("t").select(
        "a", F.row_number().over(Window.partitionBy("b").orderBy("c", "a")).alias("n")
    ),
    "explode": lambda s: s.table("wide").select("i", F.explode_outer("arr").alias("x")),
    "lambda": lambda s: s.table("wide").select(F.transform("arr", lambda x: x + F.col("i")).alias("x")),
    "fill": lambda s: s.table("t").na.fill(0.0),
    "limit then offset": lambda s: s.table("t").orderBy(F.col("a").asc_nulls_last(), "c").limit(4).offset(1),
    "sql over frames": lambda s: s.sql("SELECT a, count(*) AS n FROM t GROUP BY a").where("n > 1"),
    "a view of the session": over_a_view_of_the_session,
    "repartitioned": lambda s: s.table("t").repartition(2, "a").select("a"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_means_the_same_after_the_way_through_the_algebra(spark, lake, name):
    assert assert_same(spark, FRAMES[name](spark), lake).sql is None


def test_a_python_function_is_called_under_a_name_of_its_own(spark, lake):
    plus = F.udf(lambda x: None if x is None else x + 1, IntegerType())
    definition = assert_same(spark, spark.table("t").select("b", plus("a").alias("x")), lake)
    assert [note.code for note in definition.notes] == ["PYTHON_UDF"]


def test_a_frame_that_the_algebra_cannot_say_is_refused(spark, lake):
    with pytest.raises(NablaError, match="Sample") as refused:
        define(spark, spark.table("t").sample(0.5, seed=1), lake, "v")
    assert refused.value.code == "NABLA_UNSUPPORTED_OPERATOR"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (lambda s: s.createDataFrame([(1,)], "x INT"), "NABLA_FOREIGN_SOURCE"),
        (
            lambda s: s.table("t").join(s.createDataFrame([(1,)], "x INT"), F.col("a") == F.col("x")),
            "NABLA_FOREIGN_SOURCE",
        ),
        (lambda s: s.readStream.format("rate").load(), "NABLA_STREAMING"),
    ],
)
def test_a_frame_over_something_else_than_the_lake_is_refused(spark, lake, frame, code):
    with pytest.raises(NablaError) as refused:
        define(spark, frame(spark), lake, "v")
    assert refused.value.code == code


def test_a_view_of_the_session_that_reads_no_table_is_refused_by_name(spark, lake):
    spark.createDataFrame([(1,)], "x INT").createOrReplaceTempView("elsewhere")
    with pytest.raises(NablaError, match="elsewhere") as refused:
        define(spark, "SELECT * FROM elsewhere", lake, "v")
    assert refused.value.code == "NABLA_UNKNOWN_TABLE"
