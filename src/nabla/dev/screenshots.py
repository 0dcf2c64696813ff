"""Screenshots of all pages of a console, wide and on a phone, light and dark: `python -m nabla.dev.screenshots LAKE OUT`."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urljoin

import nabla
from nabla.console.pages import Allowed
from nabla.dev.browser import PHONE, WIDE, browser, screenshot, served, show


def take(lake: str, folder: Path) -> list[Path]:
    """Write the screenshots of a lake's pages to a folder."""
    opened = nabla.open(lake)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with served(opened, Allowed(refresh=True, query=True)) as server, browser() as driver:
        for name, address in _pages(opened).items():
            for size, width in ((WIDE, "wide"), (PHONE, "phone")):
                for theme in ("light", "dark"):
                    show(driver, urljoin(server.url, address), size, theme)
                    file = folder / f"{name}-{width}-{theme}.png"
                    file.write_bytes(screenshot(driver))
                    written.append(file)
    return written


def _pages(lake: nabla.Lake) -> dict[str, str]:
    """Pages with their addresses: those of the console, and one of an object of each kind."""
    pages = {"lake": "/", "list": "/#list", "refreshes": "/refreshes", "advice": "/advice", "query": "/query"}
    kinds = {one.kind: name for name, one in lake.status().items()}
    return pages | {kind: f"/object/{name}" for kind, name in kinds.items()}


if __name__ == "__main__":
    for path in take(sys.argv[1], Path(sys.argv[2])):
        sys.stdout.write(f"{path}\n")
