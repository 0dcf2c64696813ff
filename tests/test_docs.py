"""The documentation is true: its Python code runs, its links lead somewhere, its codes are complete."""

from __future__ import annotations

import ast
import importlib.util
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from nabla.dev.bench.page import fill as performance_page
from nabla.explain.operators_page import page as operators_page

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)\)")


def code_of(page: Path) -> str:
    """All Python blocks of a page as one program, each line where it stands in the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for block in CODE.finditer(text):
        start = text.count("\n", 0, block.start(1))
        for offset, line in enumerate(block.group(1).splitlines()):
            lines[start + offset] = line
    return "\n".join(lines)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", [page for page in PAGES if code_of(page).strip()], ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code_of(page), str(page), "exec"), {"__name__": "__main__"})
    if page.stem == "explain":  # the drawing is what its page draws; `make docs` draws it anew
        assert (tmp_path / "revenue.svg").read_text() == (ROOT / "docs/explain.svg").read_text()


def test_the_page_of_operators_is_up_to_date() -> None:
    """`make docs` writes it anew."""
    assert (ROOT / "docs/operators.md").read_text(encoding="utf-8") == operators_page()


def test_the_measured_parts_are_those_of_the_measurements() -> None:
    """`make docs` writes them anew."""
    assert (ROOT / "docs/performance.md").read_text(encoding="utf-8") == performance_page(ROOT / "docs")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^    .*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)  # formulas look like links
    missing = [link for link in LINK.findall(prose) if not (page.parent / link).exists()]
    assert missing == []


def test_every_code_in_the_source_is_explained() -> None:
    sources = (ROOT / "src").rglob("*.py")
    used = {code for file in sources for code in re.findall(r'"(NABLA_[A-Z_]+)"', file.read_text(encoding="utf-8"))}
    explained = set(re.findall(r"`(NABLA_[A-Z_]+)`", (ROOT / "docs/errors.md").read_text(encoding="utf-8")))
    variables = {"NABLA_FAULT", "NABLA_HOUSEKEEPING", "NABLA_SYNC", "NABLA_TEST_MASTER", "NABLA_TRUST"}
    variables |= {"NABLA_LOG", "NABLA_PROGRESS", "NABLA_RECORD_QUERIES"}
    assert used - variables == explained


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_the_code_of_a_page_imports_is_there(page: Path) -> None:
    """Without running the page, which needs Spark."""
    for node in ast.walk(ast.parse(code_of(page))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "nabla":
            module = importlib.import_module(node.module or "")
            missing = [name.name for name in node.names if not hasattr(module, name.name)]
            assert [name for name in missing if not find_spec(f"{node.module}.{name}")] == []  # it may be a module
