"""What the site adds to the pages of docs/: the changelog, the page for contributors, the decisions, and pages that the
navigation does not name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages that stand beside docs/, where people look for them, and their places in the site."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A page that nobody has put into the navigation is a capability; decisions are listed with the code's pages."""
    nav: list[dict[str, Any]] = config.nav  # type: ignore[assignment]
    sections = {title: pages for section in nav for title, pages in section.items()}
    named = {page if isinstance(page, str) else next(iter(page.values())) for s in sections.values() for page in s}
    docs = Path(config.docs_dir)
    for folder, section in ((".", "Capabilities"), ("howto", "How to"), ("examples", "Examples"), ("api", "Reference")):
        pages = sorted(path.relative_to(docs).as_posix() for path in (docs / folder).glob("*.md"))
        sections[section] += [page for page in pages if page not in named]
    decisions = sorted(path.relative_to(docs).as_posix() for path in (docs / "decisions").glob("*.md"))
    sections["Contributing"].append({"Decisions": decisions})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, place in OUTSIDE.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to pages beside docs/ lead to their places in the site."""
    for name, place in OUTSIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)+{re.escape(name)}", f"]({place}", markdown)
    return markdown
