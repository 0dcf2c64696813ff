"""A browser for all tests, and a function that opens pages in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import pytest
from console_lakes import make_large

import nabla
from nabla.dev.browser import WIDE, browser, complaints, served, show

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from nabla.console.server import ConsoleServer

Open = Callable[..., Any]


@pytest.fixture(scope="session")
def driver() -> Iterator[Chrome]:
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def server(kept: nabla.Lake) -> Iterator[ConsoleServer]:
    """The console of the kept lake, which only reads."""
    with served(kept) as running:
        yield running


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> nabla.Lake:
    return nabla.open(make_large(tmp_path_factory.mktemp("large"), 300))


@pytest.fixture
def look(driver: Chrome) -> Iterator[Open]:
    """Opens a page; in the end the browser must not have complained."""

    def at(
        server: ConsoleServer | str | Path, page: str = "/", size: tuple[int, int] = WIDE, theme: str = "light"
    ) -> Chrome:
        url = server.as_uri() if isinstance(server, Path) else server if isinstance(server, str) else server.url
        show(driver, urljoin(url, page) if not isinstance(server, Path) else url, size, theme)
        return driver

    complaints(driver)
    yield at
    driver.get("about:blank")
    assert [said for said in complaints(driver) if "/events" not in said] == []  # a server ends before its listeners
