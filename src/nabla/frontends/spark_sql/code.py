"""What in a stored query is code: a text of somebody else is looked at before a session sees it.

Spark SQL is no mere language of queries. `TRANSFORM` starts programs, `java_method` calls any Java method, a relation may be a
file or a table of another catalog, and a text that begins like a query may be a statement that writes.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from nabla.frontends.spark_sql.failures import quiet
from nabla.frontends.spark_sql.jvm import compile_java, java_list

OPERATORS = (
    *(
        "Project",
        "Filter",
        "Aggregate",
        "Distinct",
        "Sort",
        "GlobalLimit",
        "LocalLimit",
        "LimitAll",
        "Offset",
        "Sample",
    ),
    *("Join", "LateralJoin", "Union", "Except", "Intersect", "Generate", "Expand", "Pivot", "Unpivot", "Window"),
    *("OneRowRelation", "LocalRelation", "Range", "SubqueryAlias", "WithWindowDefinition", "UnresolvedWith"),
    *("UnresolvedRelation", "UnresolvedInlineTable", "UnresolvedHaving", "UnresolvedQualify", "UnresolvedHint"),
    *("UnresolvedSubqueryColumnAliases", "UnresolvedTableValuedFunction", "UnresolvedTVFAliases", "UnionLoop"),
    *("Repartition", "RepartitionByExpression", "RebalancePartitions", "PipeOperator"),
)
"""The operators of a parsed query. Not among them: ScriptTransformation, statements, and names that are computed."""

REFUSED = ("java_method", "reflect", "try_reflect", "from_avro", "from_protobuf", "from_xml", "python_worker_logs")
"""Functions of Spark that call Java, or that may be given a file or URL to read."""

_FINDERS: WeakKeyDictionary[SparkSession, Any] = WeakKeyDictionary()


def find_code(session: SparkSession, text: str) -> str | None:
    """What a text does that is more than a query over temporary views of the session, or None if it is no more."""
    if "${" in text and session.conf.get("spark.sql.variable.substitute") == "true":
        return "a variable of the session or of the environment"
    if session not in _FINDERS:
        _FINDERS[session] = _new_finder(session)
    try:
        with quiet():
            found: str | None = _FINDERS[session].find(text)
            return found
    except ParseException:
        return "a text that is no query"


def _new_finder(session: SparkSession) -> Any:
    gateway: Any = session.sparkContext._gateway
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 3)
    arguments[0] = session._jsparkSession
    arguments[1], arguments[2] = (java_list(session._jvm, names) for names in (OPERATORS, REFUSED))
    return compile_java(session._jvm, ("CodeFinder",)).getConstructors()[0].newInstance(arguments)
