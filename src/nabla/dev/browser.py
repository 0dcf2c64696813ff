"""A real browser for tests and screenshots of the console: Chromium of the system, without a window."""

from __future__ import annotations

import base64
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from nabla.console.pages import Allowed
from nabla.console.server import ConsoleServer
from nabla.errors import NablaError
from nabla.lake.context import HasContext

WIDE, PHONE = (1440, 900), (390, 844)


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium, driven by its own driver; both are packages of Debian."""
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if program is None or driver is None:
        raise NablaError(
            "NABLA_NO_BROWSER",
            "there is no Chromium, or no driver for it",
            remedy="Install the packages chromium and chromium-driver, or run make test-browser.",
        )
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield running
    finally:
        running.quit()


@contextmanager
def served(lake: HasContext, allowed: Allowed | None = None, host: str = "127.0.0.1") -> Iterator[ConsoleServer]:
    """The console of a lake on a free port, in a thread."""
    server = ConsoleServer(lake, host, 0, allowed)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join(10)


def show(driver: webdriver.Chrome, url: str, size: tuple[int, int] = WIDE, theme: str = "light") -> None:
    """Open a page in a window of a size, light or dark as the system would say."""
    command(driver, "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    command(driver, "Emulation.setDeviceMetricsOverride", **metrics)
    driver.get(url)


def screenshot(driver: webdriver.Chrome, *, whole: bool = True) -> bytes:
    """The page as a PNG, down to its end."""
    time.sleep(0.4)  # transitions
    found = command(
        driver, "Page.captureScreenshot", format="png", captureBeyondViewport=whole, **(_whole(driver) if whole else {})
    )
    return base64.b64decode(found["data"])


def _whole(driver: webdriver.Chrome) -> dict[str, Any]:
    size = command(driver, "Page.getLayoutMetrics")["cssContentSize"]
    return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}}


def command(driver: webdriver.Chrome, name: str, **parameters: Any) -> Any:
    """A command of Chromium's own protocol."""
    return driver.execute_cdp_cmd(name, parameters)


def complaints(driver: webdriver.Chrome) -> list[str]:
    """What the browser's console has to complain about since it was asked last: errors of scripts, refused resources."""
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
