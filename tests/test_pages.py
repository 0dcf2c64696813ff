"""The pages about the code speak of rooms and files that exist, and leave none out."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "nabla"
HOW_IT_WORKS = (ROOT / "docs/how-it-works.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def rooms() -> set[str]:
    """Every folder with Python code."""
    return {f"{file.parent.relative_to(SOURCES)}/" for file in SOURCES.rglob("__init__.py")} - {"./"}


def test_every_room_is_described_and_every_described_room_exists() -> None:
    described = re.findall(r"^\| `([\w/]+/)` \| \S.*\|$", HOW_IT_WORKS, re.MULTILINE)
    assert sorted(described) == sorted(rooms())


def test_the_page_has_the_layers_that_are_checked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (rooms,) = (c for c in project["tool"]["importlinter"]["contracts"] if c.get("containers") == ["nabla"])
    assert "\n\n" + "\n".join(f"    {layer}" for layer in rooms["layers"]) + "\n\n" in HOW_IT_WORKS


def test_files_and_folders_that_are_named_exist() -> None:
    named = re.findall(r"`([\w./-]+(?:\.py|/))`", HOW_IT_WORKS + CONTRIBUTING)
    assert len(named) > 40
    assert [path for path in named if not any((base / path).exists() for base in (SOURCES, ROOT))] == []


def test_commands_that_are_named_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([\w-]+)`", HOW_IT_WORKS + CONTRIBUTING)) <= targets
