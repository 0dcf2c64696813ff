"""Small queries answered by the driver: DuckDB computes them over rows that are at hand.

Once a change has been looked up, most of a refresh's queries join some thousand rows with some thousand rows. Planning and
scheduling such a query takes Spark a second; DuckDB, in this process, takes milliseconds. It answers only queries of types
and functions for which the two agree (`duckdb_expressions`). Spark answers all others, and those that read more than should
be brought to one machine.
"""

from __future__ import annotations

import atexit
import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import duckdb
import pyarrow as pa

from nabla._cached import once
from nabla.algebra.equalities import has_equality
from nabla.algebra.memo import Memo
from nabla.algebra.names import WEIGHT_FIELD
from nabla.algebra.nodes import WEIGHT, Join, Node, Scan
from nabla.engine.budget import UNLIMITED, Budget
from nabla.engine.driver.duckdb_expressions import MACROS
from nabla.engine.driver.duckdb_sql import to_duckdb
from nabla.engine.driver.duckdb_types import NotExact
from nabla.engine.driver.file_scan import FileScan
from nabla.storage import bags
from nabla.storage.find_rows import SETTINGS

MOST_BYTES = 256 << 20
"""Bytes of rows at hand that a query may read: beyond that Spark's fixed costs are worth it."""
MOST_SCANNED = 2 << 30
"""Bytes of files, likewise."""
MOST_RETURNED = 128 << 20
"""Bytes of a result that the driver takes."""
MOST_PAIRS = 20_000_000
"""Pairs of rows that a join without an equality may compare."""

LOCKS = ("SET enable_external_access = false", "SET lock_configuration = true")
"""A lake may be somebody else's: whatever its definitions say, a query reads and writes no files, and changes no setting."""

EXPECTED = (
    "Conversion Error",
    "IO Error",
    "Invalid Input Error",
    "Not implemented Error",
    "Out of Memory Error",
    "Out of Range Error",
    "Permission Error",
)
"""The kinds of DuckDB's errors that values, files and machines bring about."""
NONE: Mapping[str, FileScan] = MappingProxyType({})
ROWS_AT_ONCE = 100_000
REFUSED = "DuckDB refuses a query that was written for it"

_THREAD = threading.local()
_STARTING = threading.Lock()
_DATABASES: dict[frozenset[str], duckdb.DuckDBPyConnection] = {}

Held = Callable[[Scan], pa.Table | FileScan | None]
"""The rows of a relation in the order of its scan's columns, and their weights if it is a change; or the files that have
them."""


@dataclass(frozen=True)
class _DuckdbQuery:
    """The text of a query, the relations that it reads by their names in the text, and its joins without an equality."""

    text: str
    scans: Mapping[str, Scan]
    products: tuple[Join, ...]


def answer(
    node: Node, held: Held, schema: pa.Schema, budget: Budget = UNLIMITED, most: int | None = None
) -> pa.Table | None:
    """The rows of a query under the names and types of a schema, or None where Spark is to be asked. Of more than `most` rows
    some are left out, and one more than that many are given."""
    query = once(node, _compile)
    if query is None:
        return None
    relations: dict[str, pa.Table] = {}
    files: dict[str, FileScan] = {}
    for name, scan in query.scans.items():
        rows = held(scan)
        if isinstance(rows, FileScan):
            files[name] = rows
        elif rows is None or not rows.num_columns:  # DuckDB finds no rows in a table without columns
            return None
        else:
            relations[name] = rows.rename_columns([*scan.fields, WEIGHT_FIELD][: rows.num_columns])
    if sum(rows.nbytes for rows in relations.values()) > MOST_BYTES:
        return None
    if files and sum(scanned.bytes for scanned in files.values()) > MOST_SCANNED:
        return None
    if query.products:
        sizes = {name: _count_rows(query.scans[name], rows) for name, rows in relations.items()}
        if _most_pairs(query, sizes | {name: scanned.rows for name, scanned in files.items()}) > MOST_PAIRS:
            return None
    text = query.text if most is None else f"SELECT * FROM ({query.text}) LIMIT {most + 1}"
    found = run(text, relations, files, budget)
    return None if found is None else found.rename_columns(schema.names).cast(schema)


def _compile(node: Node) -> _DuckdbQuery | None:
    """The query for DuckDB; None if DuckDB may answer otherwise than Spark."""
    names: dict[Scan, str] = {}
    try:
        text = to_duckdb(node, lambda scan: names.setdefault(scan, f"t{len(names)}"))
    except NotExact:
        return None
    products = tuple(n for n in node.walk() if isinstance(n, Join) and not has_equality(n))
    return _DuckdbQuery(text, {name: scan for scan, name in names.items()}, products)


def _count_rows(scan: Scan, relation: pa.Table) -> int:
    """The rows that a query has of a relation. A stored state is a log, whose entries a query adds up before it joins them: a
    total that has changed ten times has 21 entries and is one row."""
    names = [bags.N if column.name == WEIGHT.name else column.name for column in scan.columns]
    if bags.N in names and relation.num_columns == len(names) > 1:
        rows = bags.consolidate(relation.rename_columns(names))
        return max(int(rows.num_rows), bags.total(rows))
    return int(relation.num_rows)


def _most_pairs(query: _DuckdbQuery, rows_of: Mapping[str, int]) -> int:
    """Pairs of rows that joins without an equality compare; one by an equality is taken to be as large as its larger side."""
    sizes: dict[Scan, int] = {scan: rows_of[name] for name, scan in query.scans.items()}
    known: Memo[Node, int] = Memo()

    def rows(node: Node) -> int:
        if isinstance(node, Scan):
            return sizes[node]
        below = [known.once(part, rows) for part in node.inputs]
        if isinstance(node, Join):
            return max(below) if has_equality(node) else below[0] * below[1]
        return sum(below)

    return max(known.once(product, rows) for product in query.products)


def run(
    text: str, relations: Mapping[str, pa.Table], files: Mapping[str, FileScan] = NONE, budget: Budget = UNLIMITED
) -> pa.Table | None:
    """The rows of a query over named tables and files, or None where DuckDB cannot compute them: a value overflows, a divisor
    is zero, the memory does not suffice, a file is damaged. Spark then computes the query, or reports its error."""
    relations = dict(relations)
    for scanned in files.values():
        relations |= scanned.tables
    if files:
        named = (f"{name} AS NOT MATERIALIZED ({scanned.text})" for name, scanned in files.items())
        text = f"WITH {', '.join(named)} {text}"
    connection = _connection(frozenset().union(*(scanned.folders for scanned in files.values())))
    for name, table in relations.items():
        connection.register(name, table)
    try:
        with budget.interrupted_by(connection.interrupt):
            return _fetch(connection.sql(text))
    except (duckdb.Error, pa.ArrowException, OSError) as error:  # rows come through Arrow, which has its own errors
        said = str(error).splitlines()[0]
        if not said.startswith(EXPECTED):
            what = f"{REFUSED}, so that Spark computes it; please report this: {said}"
            warnings.warn(what, RuntimeWarning, stacklevel=2)
        return None
    finally:
        for name in relations:
            connection.unregister(name)


def _fetch(answered: duckdb.DuckDBPyRelation) -> pa.Table | None:
    """The rows of an answer, or None if they are more than the driver takes."""
    reader = answered.to_arrow_reader(ROWS_AT_ONCE)
    batches, size = [], 0
    for batch in reader:
        size += batch.nbytes
        if size > MOST_RETURNED:
            return None
        batches.append(batch)
    return pa.Table.from_batches(batches, reader.schema)


@atexit.register
def _close() -> None:
    """End DuckDB with the process: it would complain on the terminal of connections that are still open then."""
    _THREAD.__dict__.clear()
    _DATABASES.clear()


def _connection(folders: frozenset[str]) -> duckdb.DuckDBPyConnection:
    """The connection of this thread to a database of this process that holds nothing but macros and may read the folders."""
    connections: dict[frozenset[str], duckdb.DuckDBPyConnection] = _THREAD.__dict__.setdefault("connections", {})
    if folders not in connections:
        with _STARTING:
            if folders not in _DATABASES:
                database = duckdb.connect(":memory:", config=SETTINGS)
                database.execute("SET allowed_directories = $1", [sorted(folders)])
                for statement in (*MACROS, *LOCKS):
                    database.execute(statement)
                _DATABASES[folders] = database
        connections[folders] = _DATABASES[folders].cursor()
    return connections[folders]
