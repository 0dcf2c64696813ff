"""Batches appended to a Delta table outside of the lake, each once: the commit names the stream and the batch."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from nabla.errors import NablaError


def append_to_delta(options: Mapping[str, str], rows: pa.Table, stream: str, batch: int) -> None:
    """Append a batch, unless the table has it."""
    path = options.get("path")
    if not path:
        raise NablaError(
            "NABLA_FLOW", "a Delta sink has no path", place="create_sink", remedy='Give it options={"path": "…"}.'
        )
    if DeltaTable.is_deltatable(path):
        seen = DeltaTable(path).transaction_version(stream)
        if seen is not None and seen >= batch:
            return
    properties = CommitProperties(app_transactions=[Transaction(stream, batch)])
    write_deltalake(path, rows, mode="append", commit_properties=properties)
