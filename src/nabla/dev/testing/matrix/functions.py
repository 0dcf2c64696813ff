"""Calls of Spark's own functions with values of a kind. Spark lists the functions, and says which calls it takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import SparkSession

from nabla.dev.testing.matrix.columns import Kind
from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.spark_sql.failures import quiet

TOGETHER = 12
"""Calls that one view has as its columns."""
_SCALAR = (
    "{f}({v})",
    "{f}({v}, {v})",
    "{f}({v}, 2)",
    "{f}(2, {v})",
    "{f}({v}, 'a')",
    "{f}('a', {v})",
    "{f}({v}, 1, 2)",
)
_AGGREGATE = ("{f}({v})", "{f}({v}, id)", "{f}(id, {v})", "{f}({v}, 0.5D)", "{f}({v}, 2)")
_LEFT_OUT = frozenset(
    (
        # Their results depend on the order of rows, on chance, on the moment or on the machine: no two runs can be compared.
        *("any_value", "first", "first_value", "last", "last_value", "mode", "collect_list", "array_agg", "listagg"),
        *("string_agg", "histogram_numeric", "count_min_sketch", "version", "user", "now", "localtimestamp", "curdate"),
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "java_method", "reflect", "try_reflect", "raise_error", "assert_true", "sleep"),
        # Generators give several rows, and a SELECT has one of them at most.
        *(
            "explode",
            "explode_outer",
            "posexplode",
            "posexplode_outer",
            "inline",
            "inline_outer",
            "stack",
            "json_tuple",
        ),
    )
)
_LEFT_OUT_PARTS = ("current_", "sketch", "input_file", "session_", "aes_", "approx_top")


def names_of_functions(spark: SparkSession) -> tuple[str, ...]:
    """All functions of Spark that can be written as calls and give the same result each time."""
    names = (str(row[0]) for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())
    return tuple(
        name
        for name in names
        if name.isidentifier() and name not in _LEFT_OUT and not any(part in name for part in _LEFT_OUT_PARTS)
    )


def views(spark: SparkSession, kind: Kind, names: Sequence[str]) -> dict[str, str]:
    """Views whose columns are calls with values of a kind, over the table `t` of the session, which has most of its values."""
    scalar, aggregate = "SELECT id, {} FROM t", "SELECT grp, {} FROM t GROUP BY grp"
    return {
        **_bundle(f"{kind.name}_functions", _possible(spark, names, _SCALAR, kind.value(), scalar), scalar),
        **_bundle(f"{kind.name}_aggregates", _possible(spark, names, _AGGREGATE, kind.value(), aggregate), aggregate),
    }


def _possible(
    spark: SparkSession, names: Sequence[str], patterns: Sequence[str], value: str, query: str
) -> Iterator[str]:
    """For each function the first call that Spark takes and runs, as a value that a table can store."""
    for name in names:
        for pattern in patterns:
            call = pattern.format(f=name, v=value)
            stored = _storable(spark, call, query)
            if stored is not None:
                yield stored
                break


def _storable(spark: SparkSession, call: str, query: str) -> str | None:
    """The call, as text if its own type cannot be stored; None where Spark refuses it."""
    for text in (call, f"CAST({call} AS STRING)"):
        try:
            with quiet():
                frame = spark.sql(query.format(f"{text} AS r"))
            types.check_storable(frame.schema, "the matrix")
            frame.toArrow()
        except NablaError:
            continue
        except Exception:  # of Spark, of the JVM or of Arrow: whatever it is, there is no result to compare with
            return None
        return text
    return None


def _bundle(name: str, possible: Iterator[str], query: str) -> Mapping[str, str]:
    calls, found = list(possible), {}
    for first in range(0, len(calls), TOGETHER):
        columns = ", ".join(f"{call} AS r{i}" for i, call in enumerate(calls[first : first + TOGETHER]))
        found[f"{name}_{first // TOGETHER}"] = query.format(columns)
    return found
