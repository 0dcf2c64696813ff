"""The site: its navigation, its reference of the interface, and the follower of its links. `make site` builds it."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

import nabla

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
check = runpy.run_path(str(ROOT / "scripts/check-site"))["check"]


def navigation() -> list[str]:
    def pages(part: Any) -> list[str]:
        if isinstance(part, str):
            return [part]
        return [page for one in (part.values() if isinstance(part, dict) else part) for page in pages(one)]

    return pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])


def test_pages_of_the_navigation_exist_and_stand_there_once() -> None:
    named = navigation()
    assert len(named) == len(set(named))
    beside = {"changelog.md": ROOT / "CHANGELOG.md", "contributing.md": ROOT / "CONTRIBUTING.md"}
    assert [page for page in named if not beside.get(page, DOCS / page).exists()] == []


def test_there_are_ten_tasks_and_three_examples() -> None:
    named = navigation()
    assert sum(page.startswith("howto/") for page in named) >= 10
    assert sum(page.startswith("examples/") for page in named) >= 3


def referred() -> list[str]:
    return [name for page in (DOCS / "api").glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text(), re.M)]


@pytest.mark.parametrize("name", referred())
def test_what_the_reference_names_is_there(name: str) -> None:
    module, _, last = name.rpartition(".")
    assert importlib.util.find_spec(name) if last.islower() and _is_module(name) else hasattr(_module(module), last)


def _is_module(name: str) -> bool:
    return (ROOT / "src" / Path(*name.split("."))).with_suffix(".py").exists()


def _module(name: str) -> Any:
    return importlib.import_module(name)


def test_everything_public_is_in_the_reference() -> None:
    documented = {(value.__module__, value.__qualname__) for value in (getattr(nabla, name) for name in nabla.__all__)}
    names = referred()
    assert [f"{m}.{q}" for m, q in sorted(documented) if f"{m}.{q}" not in names and m not in names] == []


def test_extras_are_those_of_the_distribution() -> None:
    """`pip install nabla[…]` would install somebody else's package."""
    files = [*(ROOT / "src").rglob("*.py"), *DOCS.rglob("*.md"), *ROOT.glob("*.md"), ROOT / "pyproject.toml"]
    assert [str(file) for file in files if re.search(r"\bnabla\[[a-z{]", file.read_text(encoding="utf-8"))] == []


def test_the_follower_of_links_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "style.css").write_text("@import url('https://fonts.example/a.css');")
    (tmp_path / "index.html").write_text(
        '<a href="sub/">one</a><a href="sub/index.html#place">two</a><a href="https://example.org">three</a>'
    )
    (tmp_path / "sub/index.html").write_text('<h1 id="place">x</h1><img src="../style.css"><a href="#place">four</a>')
    wrong, others = check(tmp_path)
    assert wrong == ["style.css loads https://fonts.example/a.css"]
    assert dict(others) == {"https://example.org": {"index.html"}}
    (tmp_path / "sub/index.html").write_text('<a href="../gone.html">x</a><script src="//cdn.example/x.js"></script>')
    wrong, _ = check(tmp_path)
    assert set(wrong) == {
        "style.css loads https://fonts.example/a.css",
        "index.html leads to sub/index.html#place, and the page has no such place",
        "sub/index.html leads to ../gone.html, which is not there",
        "sub/index.html loads //cdn.example/x.js",
    }
