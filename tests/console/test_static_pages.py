"""`nabla page`: the console as files whose links lead to files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import nabla
from nabla.console.static_pages import write_pages
from nabla.errors import NablaError


def test_all_links_of_static_pages_lead_to_files(kept: nabla.Lake, tmp_path: Path) -> None:
    for earlier in ("assets/console.css", "object/gone.html"):
        (tmp_path / "out" / earlier).parent.mkdir(parents=True)
        (tmp_path / "out" / earlier).write_text("written before an object was dropped", encoding="utf-8")
    files = write_pages(kept, tmp_path / "out")
    assert not (tmp_path / "out/object/gone.html").exists()
    assert files[0] == tmp_path / "out" / "index.html"
    assert len(files) == 3 + len(kept.status())
    for file in files:
        links = re.findall(r'(?:href|src)="([^"#?]+)"', file.read_text(encoding="utf-8"))
        assert links
        assert [link for link in links if not (file.parent / link).is_file()] == []
    assert "live.js" not in files[0].read_text(encoding="utf-8")


def test_a_folder_with_something_else_is_left_alone(kept: nabla.Lake, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(NablaError, match="NABLA_FOLDER_EXISTS"):
        write_pages(kept, tmp_path)
    with pytest.raises(NablaError, match="NABLA_FOLDER_EXISTS"):
        write_pages(kept, tmp_path / "mine.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
