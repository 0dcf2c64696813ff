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


SECTIONS = {
    "Griffin, Libkin, Trickey": "I II III IV",
    "Griffin, Kumar": "1 2 2.1 3",
    "Barbier": "1.1 1.2 1.3 1.4 2.1 2.2 2.3 3.1 3.2 3.3.1 3.3.2 4.1 4.2 4.3.1 4.3.2 4.4 "
    "5.1 5.2 5.3 5.4 5.5 5.6 6 7 8.1 8.2 8.3",
    "Manthey": "1 1.1 1.2 1.3 2.1 2.2 2.3 2.4.1 2.4.2 2.4.3 2.4.4 3.1 3.2 4",
    "Liu, Vincent": "1 2.1 2.2 2.3 2.4 3 4.1 4.2 4.3 4.4 4.5 4.6 5 6.1 6.2 6.3 6.3.1 6.3.2 7",
}
"""The sections of the papers as they are numbered there, without acknowledgements and references."""


def test_every_section_of_every_paper_has_a_row() -> None:
    parts = re.split(r"^### ", PAGE.partition("## Leaf by leaf")[0], flags=re.MULTILINE)[1:]
    for (paper, sections), part in zip(SECTIONS.items(), parts, strict=True):
        rows = re.findall(r"^\| ([0-9I][^|]*) \|", part, re.MULTILINE)
        found = {name for row in rows for name in re.split(r", ", row)}
        assert set(sections.split()) <= found, paper


def test_the_names_that_the_page_gives_are_in_the_files_beside_them() -> None:
    named = re.findall(r"`([A-Za-z_0-9]+)` in `([a-z_/]+\.py)`", PAGE)
    assert len(named) > 4
    for name, file in named:
        assert re.search(rf"\b{name}\b", (ROOT / "src/nabla" / file).read_text(encoding="utf-8")), (name, file)
