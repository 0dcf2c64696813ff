"""Columns of data files that stay in memory from one look-up to the next.

A data file never changes, so columns that were read of it stay valid. Tables that change seldom are looked up by one view after
the other, and at every refresh of a process that goes on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

import pyarrow as pa

MOST_BYTES = 1 << 30
MOST_MISSED = 100_000
LARGEST_TABLE = 10_000_000
"""Rows of a table that is kept: a larger one would push out many that are asked for as often."""


class KeptColumns:
    """A cache of columns of bounded size; the least recently used go first."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._columns: OrderedDict[Hashable, pa.ChunkedArray] = OrderedDict()
        self._missed: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> pa.ChunkedArray | None:
        with self._lock:
            if key in self._columns:
                self._columns.move_to_end(key)
            return self._columns.get(key)

    def is_worth_keeping(self, key: Hashable) -> bool:
        """Whether a column is kept, or has been asked for before: a file that is looked into again will be once more."""
        with self._lock:
            if key in self._columns or key in self._missed:
                return True
            self._missed[key] = None
            if len(self._missed) > MOST_MISSED:
                self._missed.popitem(last=False)
            return False

    def put(self, key: Hashable, column: pa.ChunkedArray) -> None:
        with self._lock:
            if key in self._columns or column.nbytes > self.most_bytes:
                return
            self._columns[key] = column
            self.bytes += column.nbytes
            while self.bytes > self.most_bytes:
                self.bytes -= self._columns.popitem(last=False)[1].nbytes


KEPT = KeptColumns()
