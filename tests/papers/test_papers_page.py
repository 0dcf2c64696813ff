"""docs/papers.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from nabla.papers import pair_rules
from nabla.papers.pair_laws import PAIR_RULES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/papers.md").read_text(encoding="utf-8")


def test_the_table_of_pair_rules_is_the_registry() -> None:
    table = PAGE.partition("| Q | ∇Q | ΔQ |\n|---|---|---|\n")[2].partition("\n\n")[0]
    assert table.splitlines() == [f"| {r.query} | {r.delete} | {r.insert} |" for r in PAIR_RULES.values()]
    assert {name for name in PAIR_RULES if not hasattr(pair_rules, name)} == set()


def test_the_modules_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`((?!tests)[a-z_]+/[a-z_/]+\.py)`", PAGE))
    assert {name for name in named if not (ROOT / "src/nabla" / name).exists()} == set()
    assert len(named) > 8


def test_the_page_has_a_table_for_each_paper() -> None:
    papers = re.findall(r"^### (.*?)(?: \d{4})?: \*", PAGE, re.MULTILINE)
    assert papers == ["Griffin, Libkin, Trickey", "Griffin, Kumar", "Barbier", "Manthey", "Liu, Vincent"]
    sections = re.findall(r"^\| ([0-9I][^|]*) \| [^|]+ \| [^|]+ \| [^|]+ \|$", PAGE, re.MULTILINE)
    assert len(sections) > 25
    assert all(any(section.startswith(chapter) for section in sections) for chapter in "12345678")


def test_the_names_that_the_page_gives_are_in_the_files_beside_them() -> None:
    named = re.findall(r"`([A-Za-z_0-9]+)` in `([a-z_/]+\.py)`", PAGE)
    assert len(named) > 4
    for name, file in named:
        assert re.search(rf"\b{name}\b", (ROOT / "src/nabla" / file).read_text(encoding="utf-8")), (name, file)
