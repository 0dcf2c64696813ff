"""A refresh walks through few rooms: a stranger who follows one should not have to open half of the code."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import nabla
from nabla.lake.facade import Lake

pytestmark = pytest.mark.spark

MOST_FILES = 47
"""Seven of them are for those who look on, and for housekeeping. Monitors do not count: other tests may have started some."""
ROOT = Path(nabla.__file__).parent


@contextmanager
def files_passed() -> Iterator[set[str]]:
    """The files of Nabla in which code of a function runs, in any thread that begins within."""
    passed: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            passed.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    found: set[str] = set()
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    found |= {str(Path(file).relative_to(ROOT)) for file in passed if Path(file).is_relative_to(ROOT)}


def test_a_refresh_of_a_small_sum_passes_few_files(lake: Lake) -> None:
    lake.create_table(
        "sales", schema="id INT, product STRING, amount INT", key="id", data=[(1, "cup", 3), (2, "pot", 5)]
    )
    lake.create_view("totals", "SELECT product, SUM(amount) AS total FROM sales GROUP BY product")
    for i in range(3, 6):
        with lake.transaction() as tx:
            tx.insert("sales", [(i, "cup", i)])
        with files_passed() as files:
            report = lake.refresh()
        assert report["totals"].mode == "incremental"
    lake.verify()
    files = {file for file in files if not file.startswith("lake/monitor/")}
    assert len(files) <= MOST_FILES, "\n".join(sorted(files))
