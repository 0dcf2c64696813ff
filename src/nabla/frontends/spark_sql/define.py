"""Views from Spark SQL text and PySpark DataFrames.

Spark parses and resolves a query, its own rules turn subqueries into joins, and one walk over the result gives the algebra. A
query that the algebra cannot express is kept as its SQL (`Opaque`), with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nabla.algebra.calls import Named
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import MalformedPlan, Node, Opaque, Project
from nabla.errors import NablaError
from nabla.frontends.spark_sql import tree
from nabla.frontends.spark_sql.expressions import Unsupported
from nabla.frontends.spark_sql.failures import quiet, translated, unknown_table
from nabla.frontends.spark_sql.jvm import Query, ReadRelation, substitute_variables
from nabla.frontends.spark_sql.operators import OPERATORS
from nabla.frontends.spark_sql.python_udfs import PythonFunction
from nabla.frontends.spark_sql.scope import ColumnNames
from nabla.frontends.spark_sql.walker import SETTINGS, Walker
from nabla.rewrite.narrow_groups import NO_KEYS, IsKey
from nabla.rewrite.passes import DEFINITION, Keys, rewrite


@dataclass(frozen=True)
class Note:
    """A message for the user that is not an error."""

    code: str
    message: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}{f' ({self.place})' if self.place else ''}"


@dataclass(frozen=True)
class Definition:
    """The definition of a view. The columns of `plan` are in the order of `outputs`, which are the names that users see."""

    plan: Node
    outputs: tuple[str, ...]
    sql: str | None
    notes: tuple[Note, ...] = ()
    functions: tuple[PythonFunction, ...] = ()


def define(
    session: SparkSession, query: str | DataFrame, tables: Collection[str], view: str, is_key: IsKey = NO_KEYS
) -> Definition:
    """Read a query over the lake's tables, which are temporary views of the session under their own names."""
    _refuse_connect(session, query)
    sql = substitute_variables(session, query.strip().rstrip(";").rstrip()) if isinstance(query, str) else None
    resolved = Query(session, _analyze(session, query if sql is None else sql, tables), tables)
    if resolved.plan.isStreaming():
        raise NablaError(
            "NABLA_STREAMING", f"the query of view {view} reads a stream", remedy="Read a table of the lake."
        )
    _refuse_duplicates(resolved.columns)
    read = _tables_read(resolved.sources, tables)
    notes: list[Note] = []
    functions: dict[int, PythonFunction] = {}
    try:
        functions = resolved.python_functions()
        plan = _rewrite_definition(_walk(resolved, functions, notes), is_key, notes)
    except Unsupported as refusal:
        plan = _opaque(refusal, sql, read, resolved.columns, view)
    outputs = tuple(c.name for c in resolved.columns)
    return Definition(plan, outputs, sql, tuple(notes), tuple({f.name: f for f in functions.values()}.values()))


def read_rows_query(frame: DataFrame) -> Node | None:
    """The plan of a DataFrame over rows that it brings along (a `Constant`), without Python functions. None for any other."""
    resolved = Query(frame.sparkSession, frame._jdf.queryExecution().analyzed(), ())
    try:
        return _walk(resolved, {}, [])
    except Unsupported:
        return None


def _refuse_connect(session: Any, query: Any) -> None:
    if any(type(thing).__module__.startswith("pyspark.sql.connect") for thing in (session, query)):
        raise NablaError(
            "NABLA_SPARK_CONNECT",
            "Spark Connect does not show its plans, from which Nabla reads what a view is",
            remedy="Use a classic session (SparkSession.builder.master(…)), or give the view as SQL text.",
        )


def _analyze(session: SparkSession, query: str | DataFrame, tables: Collection[str]) -> Any:
    if isinstance(query, DataFrame):
        return query._jdf.queryExecution().analyzed()
    try:
        with quiet():
            parser = session._jsparkSession.sessionState().sqlParser()
            _refuse_statements(parser, query)
            return session.sql(query)._jdf.queryExecution().analyzed()
    except PySparkException as error:
        raise translated(error, query, tables) from None


def refuse_statement(session: SparkSession, text: str) -> None:
    """Refuse a text that is a statement. A text that Spark cannot parse at all is left to whoever runs it."""
    with suppress(PySparkException), quiet():
        _refuse_statements(session._jsparkSession.sessionState().sqlParser(), text)


def _refuse_statements(parser: Any, sql: str) -> None:
    """Refuse statements before `session.sql` gets the text, which would execute an INSERT at once."""
    try:
        parser.parseQuery(sql)
    except PySparkException as error:
        try:
            parser.parsePlan(sql)
        except PySparkException:
            raise error from None
        raise NablaError("NABLA_NOT_A_QUERY", "this is a statement", remedy="A view is a query: SELECT ….") from None


def _refuse_duplicates(columns: list[tree.Expression]) -> None:
    twice = [name for name, n in Counter(c.name.lower() for c in columns).items() if n > 1]
    if twice:
        raise NablaError(
            "NABLA_DUPLICATE_COLUMN",
            f"the view would have two columns of the name {', '.join(twice)}",
            remedy="Give them different names with AS.",
        )


def _tables_read(sources: list[ReadRelation], tables: Collection[str]) -> tuple[str, ...]:
    names = {t.lower(): t for t in tables}
    read = []
    for source in sources:
        if source.table is not None:
            read.append(names[source.table])
            continue
        place = f"line {source.line}" if source.line else ""
        if source.name is not None:
            raise unknown_table(source.name, tables, place)
        raise NablaError(
            "NABLA_FOREIGN_SOURCE",
            f"the query reads something that is no table of the lake: {source.text}",
            place=place,
            remedy="Create a table of the lake from it, and read that.",
        )
    return tuple(sorted(set(read)))


def _walk(query: Query, functions: Mapping[int, PythonFunction], notes: list[Note]) -> Node:
    udfs = {number: function.name for number, function in functions.items()}
    root = normalize_query(query)
    settings = {key: str(query.session.conf.get(key)) for key in SETTINGS}
    walker = Walker(OPERATORS, {t.lower(): t for t in query.tables}, udfs, settings)
    try:
        result = walker.walk(root)
        held = [result.columns[c.id] for c in root.output if c.id is not None]
        plan = _select_outputs(walker.names, result.node, held, query.columns)
    except MalformedPlan as error:
        raise Unsupported(f"a shape that the algebra refuses ({error})") from error
    if udfs:
        notes.append(Note("PYTHON_UDF", "the view calls Python functions, which are stored with it as they are now"))
    if (order := _order(root)) is not None:
        notes.append(Note("ORDER_DROPPED", "ORDER BY without LIMIT means nothing in a stored view", order.place))
    return plan


def _rewrite_definition(plan: Node, is_key: IsKey, notes: list[Note]) -> Node:
    keys = Keys(is_key)
    plan = rewrite(plan, DEFINITION, keys)
    notes.extend(Note("GROUPS_NARROWED", text) for text in keys.notes)
    return plan


def normalize_query(query: Query) -> tree.Operator:
    rules = query.rules  # a rule that this Spark does not have is no fault of the query
    try:
        return query.normalized(rules)
    except (PySparkException, Py4JError) as error:
        raise Unsupported(f"a query that Spark's rules cannot normalise ({str(error).splitlines()[0]})") from error


def _order(root: tree.Operator) -> tree.Operator | None:
    while root.kind == "Project":
        root = root.child
    return root if root.kind == "Sort" and root.fields["global"] else None


def _select_outputs(names: ColumnNames, node: Node, held: list[Column], columns: list[tree.Expression]) -> Node:
    """A node with exactly the columns of the view, in its order. `held` are the columns that hold their values."""
    if [c.name for c in held] == [c.name for c in node.columns] and all(
        h.label == c.name for h, c in zip(held, columns, strict=True)
    ):
        return node
    outputs: list[Named] = []
    for column, c in zip(held, columns, strict=True):
        taken = any(o.column.name == column.name for o in outputs)
        fits = column.label == c.name and not taken
        outputs.append(Named(column if fits else names.column(c.name, column.type, column.nullable), column.ref))
    if isinstance(node, Project) and len({c.name for c in held}) == len(held):
        return Project(
            node.input, tuple(Named(o.column, node.definitions[h.name]) for o, h in zip(outputs, held, strict=True))
        )
    return Project(node, tuple(outputs))


def _opaque(
    refusal: Unsupported, sql: str | None, read: tuple[str, ...], columns: list[tree.Expression], view: str
) -> Opaque:
    if sql is None:
        raise NablaError(
            "NABLA_UNSUPPORTED_OPERATOR",
            f"view {view} has {refusal.what}, for which Nabla has no algebra",
            place=refusal.place,
            remedy="Give the view as SQL text: it is then recomputed at every refresh.",
        ) from refusal
    names = ColumnNames()
    output: tuple[Column, ...] = tuple(names.of(c) for c in columns)
    return Opaque(sql, read, output, "NABLA_UNSUPPORTED_OPERATOR", refusal.what, refusal.place)
