"""Tables of the catalogs of a session: how a name is written, and what a catalog says of a table."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from nabla.algebra.expressions import quote
from nabla.engine.spark.frames import Workspace

_VIEW = re.compile(r"\bView \(`([^`.]+)`,")
_DETAILS = "# Detailed Table Information"


@dataclass(frozen=True)
class Described:
    """A table or view of a catalog. `provider` is its format, `location` the URI of its files; either may be empty. `created`
    tells it from another one that was made under its name."""

    name: str
    kind: str
    provider: str
    location: str
    created: str
    properties: str


def quoted(session: SparkSession, name: str) -> str:
    """The name of a table as it can be written into a query. Spark's error for what is no name."""
    parsed = session._jsparkSession.sessionState().sqlParser().parseMultipartIdentifier(name)
    return ".".join(quote(parsed.apply(i)) for i in range(parsed.length()))


def describe(workspace: Workspace, name: str) -> Described:
    """What the catalog says of a table, looked up afresh: Spark remembers the files of tables that it has read."""
    written = quoted(workspace.session, name)
    rows = workspace.sql(f"DESCRIBE TABLE EXTENDED {written}").collect()
    names = [row.col_name for row in rows]
    said = {row.col_name: row.data_type or "" for row in rows[names.index(_DETAILS) :]} if _DETAILS in names else {}
    if said:
        workspace.session.catalog.refreshTable(written)
    details = (said.get(key, "") for key in ("Type", "Provider", "Location", "Created Time", "Table Properties"))
    return Described(written, *details)


def views_in(frame: DataFrame) -> frozenset[str]:
    """The temporary views that a query reads, directly or through others."""
    return frozenset(_VIEW.findall(frame._jdf.queryExecution().analyzed().toString()))
