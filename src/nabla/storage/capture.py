"""Delta's change data feed, written beside a table for readers of other systems.

A table with the feed says of every commit that deletes rows which rows came and went, in files of `_change_data` that the
commit names. Their change is minimal: no row is both deleted and inserted. Of a commit that only adds files, the files say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from nabla.storage import bags, files
from nabla.storage.boundary import CAPTURES
from nabla.storage.changes import CHANGE_TYPE
from nabla.storage.deltalog import CAPTURED
from nabla.storage.files import DataFile


def capture(folder: str, signed: pa.Table) -> dict[str, Any]:
    """Write a consolidated change as a feed has it. Gives what the metadata of the commit says of it."""
    pieces = []
    for counted, kind in zip(bags.split(signed), ("delete", "insert"), strict=True):
        rows = bags.repeat(counted)
        pieces.append(rows.append_column(CHANGE_TYPE, pa.repeat(pa.scalar(kind, pa.string()), rows.num_rows)))
    return said(files.write(folder, pa.concat_tables(pieces), below=CAPTURES))


def said(captured: Iterable[DataFile]) -> dict[str, Any]:
    """What the metadata of a commit says of the files of a feed."""
    return {CAPTURED: [{"path": file.path, "bytes": file.bytes} for file in captured]}
