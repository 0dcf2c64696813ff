"""Texts that are made from what a lake stores reach Spark in one place, where they are looked at first."""

from __future__ import annotations

import re
from pathlib import Path

import nabla

SOURCES = Path(nabla.__file__).parent
OF_USERS = {
    "engine/spark/frames.py": "Workspace.sql, which looks at a text first",
    "lake/answer/answer.py": "lake.sql and lake.answer",
    "lake/publish/catalog_table.py": "statements for a catalog, made of quoted names and texts",
    "lake/write/fresh.py": "tx.sql",
}


def test_every_text_of_a_lake_goes_through_its_workspace() -> None:
    calls = re.compile(r"(?:session|spark|sparkSession|named_session)\.sql\(")
    found = {
        path.relative_to(SOURCES).as_posix()
        for room in ("engine", "lake")
        for path in (SOURCES / room).rglob("*.py")
        if calls.search(path.read_text(encoding="utf-8"))
    }
    assert found == OF_USERS.keys()
