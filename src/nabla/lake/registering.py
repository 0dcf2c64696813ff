"""How tables of others come into a lake."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Literal

from pyspark.sql.types import StructType

from nabla._arguments import check_arguments
from nabla.lake.alter.follow_registered import follow_registered
from nabla.lake.context import LakeContext
from nabla.lake.write.register import Sought, register


@check_arguments
class Registering:
    """The part of a lake's interface that takes sources."""

    _context: LakeContext

    def register(
        self,
        name: str,
        path: str | os.PathLike[str] | None = None,
        key: str | Sequence[str] | None = None,
        *,
        table: str | None = None,
        iceberg: str | None = None,
        files: str | os.PathLike[str] | None = None,
        query: str | None = None,
        schema: str | StructType | None = None,
        format: str | None = None,
        options: Mapping[str, str] | None = None,
        bad_rows: Literal["error", "rescue"] | None = None,
    ) -> None:
        """Take a table of others into the lake, to read it only: whoever writes it goes on doing so.

        It is one of these: the Delta table at a `path`; a `table` of a catalog that the session knows; the `iceberg` table
        "catalog.namespace.table" of a catalog that pyiceberg is configured for; the `files` that a pattern names
        ("landing/*.json"), as they arrive, are replaced and go; whatever Spark reads by a `query`. Delta is read where it is.
        Of the others the lake keeps a copy, which refreshes bring up to date from what has changed; of a query or a table that
        is no Delta, all rows are read and compared.

        Files have the columns of `schema`, or those that they have now, and the `format` of their ending; `options` are those
        of Spark's readers. A row that does not have the columns is an error, or with `bad_rows="rescue"` kept as text in the
        column `_rescued`. Columns that are added, renamed or widened later are followed in a Delta table; a column that
        another source gets is left out until it is registered again under its name.
        """
        follow_registered(self._context, [name] if name in self._context.log.state().entries else [])
        sought = Sought(path, table, iceberg, files, query, schema, format, options, bad_rows)
        register(self._context, name, sought, key)
