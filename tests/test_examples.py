"""The examples run, and their pictures are what they draw; the notebook runs from top to bottom."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_and_draws_its_picture(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`make docs` draws the pictures anew."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
    picture = program.stem.replace("_", "-") + ".svg"
    assert (tmp_path / picture).read_text("utf-8") == (ROOT / "docs/examples" / picture).read_text("utf-8")


def shown(source: str, names: dict[str, Any]) -> Any:
    """The value of a cell's last expression, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    pages = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], "outputs are not kept: they would grow old"
            value = shown("".join(cell["source"]), names)
            pages.append(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
    assert sum("<svg" in page for page in pages) == 1
    assert any("revenue" in page and "<table" in page for page in pages)


def test_there_are_examples_and_a_notebook() -> None:
    assert len(PROGRAMS) == 3
    assert NOTEBOOKS
