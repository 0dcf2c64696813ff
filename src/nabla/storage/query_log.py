"""The queries that a lake was asked: a file of short lines, for `lake.advise`.

Lines have the text of a query without the constants that it compares with, so that no value of the data is kept, the time,
about how many rows it reads, and the views that answered it. The file helps to choose views, and nothing depends on it. So it
is not synced, no failure here is an error, and a lake at a URL has none.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from nabla.storage import locations
from nabla.storage.boundary import QUERIES

LARGEST = 1 << 20
"""Bytes from which on the older half of the file is dropped."""


def append_query(lake: str, text: str, rows: float = 0.0, views: Sequence[str] = ()) -> None:
    """Note that a query was asked, which reads about so many rows of tables, or these views in their place."""
    path = os.path.join(lake, QUERIES)
    if locations.is_url(lake) or os.path.islink(path):
        return
    with suppress(OSError):
        with open(path, "a", encoding="utf-8") as file:
            line = {"at": round(time.time()), "query": text, "rows": round(rows), "views": list(views)}
            file.write(json.dumps(line) + "\n")
        if os.path.getsize(path) > LARGEST:
            _drop_older_half(path)


def read_queries(lake: str) -> Iterator[str]:
    """The queries that were asked, oldest first."""
    path = os.path.join(lake, QUERIES)
    if locations.is_url(lake) or os.path.islink(path):
        return
    with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            with suppress(ValueError, KeyError, TypeError):
                yield str(json.loads(line)["query"])


def _drop_older_half(path: str) -> None:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = file.readlines()
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.writelines(lines[len(lines) // 2 :])
    os.replace(f"{path}.tmp", path)
