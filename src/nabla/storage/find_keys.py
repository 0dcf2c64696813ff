"""Rows of a table by their keys: where they stand, and what they hold, without reading the rest of the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from nabla.storage import bags, reading
from nabla.storage.deletion_vectors import numbers_of
from nabla.storage.files import DataFile, Snapshot
from nabla.storage.find_rows import Located, fetch_rows, may_hold
from nabla.storage.uncommitted import in_thread

_THREADS = 4


def find_keys(snapshot: Snapshot, keys: pa.Table) -> Located:
    """All rows of a version that have one of these distinct keys, with their places. NULL is a key like others."""
    located = find_few(snapshot, keys, snapshot.rows)
    assert located is not None
    return located


def find_few(snapshot: Snapshot, keys: pa.Table, most: int) -> Located | None:
    """The same; None if there are more rows than `most`.

    Statistics rule out files; of the others only the columns of the key are read, and then the rows that were found.
    """
    wanted = reading.conform(keys, pa.schema([snapshot.schema.field(name) for name in keys.column_names]))

    def search(file: DataFile) -> pa.Array | None:
        near = may_hold(file, wanted)
        if near.num_rows == 0:
            return None
        whole = replace(file, hidden=None, rows=file.written)
        held = reading.read_file(snapshot, whole, wanted.column_names)
        unlimited = pa.repeat(pa.scalar(held.num_rows, pa.int64()), near.num_rows)
        places = bags.match(held, near.append_column(bags.N, unlimited))[0].sort()
        if file.hidden is not None:
            hidden = numbers_of(file.hidden.marked(snapshot.folder))
            places = places.filter(pc.invert(pc.is_in(places, value_set=hidden)))
        return places if len(places) else None

    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(in_thread(search), snapshot.files)) if wanted.num_rows else []
    if sum(len(here) for here in found if here is not None) > most:
        return None
    places = zip(snapshot.files, found, strict=False)
    return fetch_rows(snapshot, {file.path: here for file, here in places if here is not None})
