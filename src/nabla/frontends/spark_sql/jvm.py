"""Spark's side of the front end: parsing, resolving and normalising a query with Catalyst's own rules."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from nabla._cached import cached_property
from nabla.frontends.spark_sql import tree
from nabla.frontends.spark_sql.calls import PRINTED
from nabla.frontends.spark_sql.expressions import ASKED_OF_SPARK, IN_REPLACEMENTS, TRANSLATIONS, Unsupported
from nabla.frontends.spark_sql.python_udfs import PythonFunction

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis."
_OPTIMIZER = "org.apache.spark.sql.catalyst.optimizer."

# Run on the whole plan; the plans of subqueries, by then free of outer references, go through all three tuples on their own.
_BEFORE = (
    _ANALYSIS + "EliminateSubqueryAliases",
    "org.apache.spark.sql.catalyst.expressions.EliminatePipeOperators",
    _OPTIMIZER + "EliminateResolvedHint",
    _OPTIMIZER + "EliminateSQLFunctionNode",
    _OPTIMIZER + "ReplaceUpdateFieldsExpression",  # withField and dropFields make a struct anew
    _OPTIMIZER + "InlineCTE",  # before the subqueries are looked at, which may refer to it
    _OPTIMIZER + "PullOutGroupingExpressions",  # keys become columns
    _OPTIMIZER + "PullupCorrelatedPredicates",  # leaves the subqueries without outer references
)

# Subqueries become joins, and the set operators that the algebra lacks become those that it has.
_AFTER = (
    _OPTIMIZER + "ReplaceDeduplicateWithAggregate",
    _OPTIMIZER + "ReplaceIntersectWithSemiJoin",
    _OPTIMIZER + "ReplaceExceptWithAntiJoin",
    _OPTIMIZER + "ReplaceDistinctWithAggregate",  # after the two above, which make a Distinct
    _OPTIMIZER + "RewriteLateralSubquery",
    _OPTIMIZER + "RewritePredicateSubquery",
    _OPTIMIZER + "RewriteCorrelatedScalarSubquery",
)

# For a good shape, until nothing changes. None of them evaluates an expression or brings in one that has no SQL.
_SHAPE = (
    _OPTIMIZER + "BooleanSimplification",  # (k AND a) OR (k AND b) is a join on k
    _OPTIMIZER + "PushDownPredicates",
    _OPTIMIZER + "ReorderJoin",  # a product with a filter above it is a join
    _OPTIMIZER + "EliminateOuterJoin",
    _OPTIMIZER + "ColumnPruning",
    _OPTIMIZER + "CollapseProject",
    _OPTIMIZER + "RemoveNoopOperators",
)


@dataclass(frozen=True)
class ReadRelation:
    """A relation that a plan reads: a table of the lake, or something else, which may have a name."""

    table: str | None
    name: str | None
    text: str
    line: int | None


# Compiled in this order, since the second uses the first.
_JAVA = ("SqlTemplates", "PlanSources", "CatalystReader")


_COMPILED: WeakKeyDictionary[Any, dict[tuple[str, ...], Any]] = WeakKeyDictionary()


def compile_java(jvm: Any, names: tuple[str, ...]) -> Any:
    """The last of these classes, whose sources are beside this file, compiled in a JVM; each may use those before it.

    A JVM gets one class of each: py4j looks methods up by the name of their class, and would call those of another one.
    """
    compiled = _COMPILED.setdefault(jvm, {})
    if names not in compiled:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        for name in names:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(files("nabla.frontends.spark_sql").joinpath(name + ".java").read_text("utf-8"))
            loader = compiler.getClassLoader()
        compiled[names] = loader.loadClass(names[-1])
    return compiled[names]


def substitute_variables(session: SparkSession, text: str) -> str:
    """The text with the values of its variables (`${name}`, `${env:NAME}`) for their names, as the session's parser takes it:
    a view keeps the values of whoever makes it."""
    if "${" not in text:
        return text
    jvm: Any = session._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        return str(jvm.org.apache.spark.sql.internal.VariableSubstitution().substitute(text))
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def java_list(jvm: Any, items: Iterable[Any]) -> Any:
    result = jvm.java.util.ArrayList()
    for item in items:
        result.add(item)
    return result


@dataclass(frozen=True)
class Catalyst:
    """The rule objects and the compiled reader of one JVM."""

    jvm: Any
    gateway: Any

    def reader(self, session: SparkSession) -> Any:
        arguments = self.gateway.new_array(self.jvm.java.lang.Object, 3)
        arguments[0] = session._jsparkSession
        arguments[1], arguments[2] = self._known
        return self._reader_class.getConstructors()[0].newInstance(arguments)

    @cached_property
    def _reader_class(self) -> Any:
        return compile_java(self.jvm, _JAVA)

    @cached_property
    def _known(self) -> tuple[Any, Any]:
        """The classes that are printed by Python, and those that may stand in a replacement. Every name is a call of the JVM,
        so the lists are made once."""
        return self._list({*TRANSLATIONS, *PRINTED} - ASKED_OF_SPARK), self._list(IN_REPLACEMENTS)

    @cached_property
    def rules(self) -> tuple[Any, ...]:
        return tuple(self._list(map(self._rule, names)) for names in (_BEFORE, _AFTER, _SHAPE))

    @property
    def _loader(self) -> Any:
        return self.jvm.java.lang.Thread.currentThread().getContextClassLoader()

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(name, True, self._loader)

    def _rule(self, name: str) -> Any:
        companion = self._class(name + "$").getField("MODULE$").get(None)
        if not name.endswith("InlineCTE"):
            return companion
        # A class and not an object; it grew a parameter between Spark 4.2 and 4.3. The first says: always.
        arity = self._class(name).getConstructors()[0].getParameterCount()
        return companion.apply(True, *[False] * (arity - 1))

    def _list(self, items: Iterable[Any]) -> Any:
        return java_list(self.jvm, items)


_OF_GATEWAY: WeakKeyDictionary[Any, Catalyst] = WeakKeyDictionary()


@dataclass(frozen=True)
class Query:
    """A resolved query."""

    session: SparkSession
    plan: Any
    tables: Collection[str]

    @cached_property
    def _catalyst(self) -> Catalyst:
        gateway = self.session.sparkContext._gateway
        if gateway not in _OF_GATEWAY:
            _OF_GATEWAY[gateway] = Catalyst(self.session._jvm, gateway)
        return _OF_GATEWAY[gateway]

    @cached_property
    def _reader(self) -> Any:
        return self._catalyst.reader(self.session)

    @cached_property
    def _names(self) -> Any:
        """The names of the tables as a set of Java, made by one call."""
        return self._reader.names("\0".join(table.lower() for table in self.tables))

    @cached_property
    def sources(self) -> list[ReadRelation]:
        found = json.loads(self._reader.sources(self.plan, self._names))
        return [ReadRelation(*source) for source in found]

    @cached_property
    def columns(self) -> list[tree.Expression]:
        """The columns of the result, as the query names them."""
        return tree.read_expressions(self._reader.columns(self.plan))

    @property
    def rules(self) -> tuple[Any, ...]:
        return self._catalyst.rules

    def normalized(self, rules: tuple[Any, ...]) -> tree.Operator:
        """The plan with subqueries as joins and every view, other than the tables, as what it stands for."""
        plan = self._reader.inlineViews(self._reader.standIns(self.plan), self._names)
        return tree.read(self._reader.read(self._reader.normalize(plan, *rules)))

    def python_functions(self) -> dict[int, PythonFunction]:
        """The Python UDFs that it calls, by their numbers in the plan."""
        found = self._reader.pythonFunctions(self.plan)
        udfs = [found.get(place) for place in range(found.size())]  # a loop ends with an exception, which takes 30 ms
        if any(udf.func().broadcastVars().size() for udf in udfs):
            raise Unsupported("a Python function with a broadcast variable, which only this process has")
        return {udf.resultId().id(): PythonFunction.of(udf) for udf in udfs}
