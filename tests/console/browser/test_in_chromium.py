"""The console in a real browser: pages, search and focus, keyboard, dark mode, live updates, hostile texts, refused actions."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from console_lakes import unpack
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import nabla
from nabla.console.pages import Allowed
from nabla.console.static_pages import write_pages
from nabla.dev.browser import PHONE, complaints, served
from nabla.lake.events import LakeEvent, StepStarted

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

    from nabla.console.server import ConsoleServer

pytestmark = pytest.mark.browser
Open = Callable[..., Any]
AXE = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def living(tmp_path: Path) -> Iterator[tuple[nabla.Lake, ConsoleServer]]:
    """A lake of the test's own that may be refreshed, with its console."""
    lake = nabla.open(unpack(tmp_path))
    with served(lake, Allowed(refresh=True)) as running:
        yield lake, running


def until(driver: Chrome, script: str, seconds: float = 20) -> Any:
    """Wait until a script gives something that is true."""
    return WebDriverWait(driver, seconds, 0.05).until(lambda d: d.execute_script(f"return {script}"))


def pay(lake: nabla.Lake, amount: int = 7) -> None:
    numbers = pa.array([1, amount], pa.int32())
    with lake.transaction() as tx:
        tx.insert("pay", pa.table({"who": numbers, "amount": numbers}))


def say(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")


def focused(driver: Chrome) -> str:
    return str(driver.execute_script("return document.activeElement.getAttribute('aria-label') || ''"))


def names(driver: Chrome, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map(n => n.nabla.name)"
    found: list[str] = driver.execute_script(script, selector)
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["wide", "phone"])
def test_every_page_is_drawn_and_accessible(
    look: Open, server: ConsoleServer, size: tuple[int, int], theme: str
) -> None:
    for page in (
        "/",
        "/#list",
        "/refreshes",
        "/advice",
        "/object/sums",
        "/object/up",
        "/object/pay",
        "/object/acyclic",
    ):
        driver = look(server, page, size, theme)
        until(driver, "document.readyState === 'complete'")
        assert driver.execute_script("return document.documentElement.dataset.theme") == theme
        wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{page} is wider than the window by {wide}"
        assert serious(driver) == [], page


def serious(driver: Chrome) -> list[str]:
    """What axe-core finds that is serious or critical. It is not bound by the page's policy for scripts."""
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE})
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations))"
    )
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:120] for node in one['nodes']][:3]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def test_a_lake_with_300_objects_is_there_in_a_second(look: Open, large: nabla.Lake) -> None:
    with served(large) as server:
        driver = look(server)
        until(driver, "Number(document.body.dataset.graph) >= 300")
        looks = []
        for _ in range(5):
            driver.refresh()
            until(driver, "Number(document.body.dataset.graph) >= 300")
            looks.append(driver.execute_script("return performance.getEntriesByName('nabla-graph-drawn')[0].startTime"))
        say(f"the lake page with {len(large.status())} objects is there after {min(looks):.0f} ms")
        assert min(looks) < 1000
        move = (
            "const done = arguments[0], svg = document.querySelector('#graph svg'); let n = 0; const begun = performance.now();"
            "const step = () => { svg.dispatchEvent(new WheelEvent('wheel', {deltaY: n % 20 < 10 ? 40 : -40, "
            "deltaX: n % 2 ? 30 : -30, bubbles: true, cancelable: true}));"
            "if (++n < 60) requestAnimationFrame(step); else done(performance.now() - begun); };"
            "requestAnimationFrame(step)"
        )
        frames = min(driver.execute_async_script(move) for _ in range(3))  # other processes only make it slower
        say(f"60 steps of moving it took {frames:.0f} ms")
        assert frames < 3000
        assert serious(driver) == []
        driver.get(server.url + "object/view_299")
        assert driver.find_element(By.TAG_NAME, "h1").text.startswith("view_299")


def test_search_finds_and_focus_shows_only_what_is_related(look: Open, large: nabla.Lake) -> None:
    with served(large) as server:
        driver = look(server)
        search = driver.find_element(By.ID, "search")
        search.send_keys("view_29")
        until(driver, "document.querySelectorAll('.node.hit').length === 10")
        assert len(names(driver, ".node.dim")) == len(large.status()) - 10
        search.send_keys("9", Keys.ENTER)
        assert names(driver, ".node.selected") == ["view_299"]
        assert driver.find_element(By.CSS_SELECTOR, "#panel h2").text == "view_299"
        ActionChains(driver).send_keys("f").perform()
        shown = names(driver, ".node")
        assert 3 <= len(shown) < 60
        assert "view_299" in shown
        upstream = {"view_299"}
        status = large.status()
        for _ in range(10):
            upstream |= {source for name in upstream for source in status[name].sources}
        assert upstream <= set(shown)
        ActionChains(driver).send_keys(Keys.ESCAPE).perform()
        assert len(names(driver, ".node")) == len(status)


def test_the_graph_is_walked_by_keyboard(look: Open, server: ConsoleServer) -> None:
    driver = look(server)
    until(driver, "document.body.dataset.graph")
    for _ in range(25):  # from the top of the page to the graph
        ActionChains(driver).send_keys(Keys.TAB).perform()
        if "rows, changed" in focused(driver):
            break
    start = focused(driver)
    assert start
    ActionChains(driver).send_keys("/").perform()
    ActionChains(driver).send_keys("pay", Keys.ENTER).perform()
    assert focused(driver).startswith("table pay")
    ActionChains(driver).send_keys(Keys.ARROW_RIGHT).perform()
    reader = names(driver, ".node.selected")[0]
    assert reader in ("of", "slow", "early", "sums")
    ActionChains(driver).send_keys(Keys.ARROW_LEFT).perform()
    ActionChains(driver).send_keys(Keys.ARROW_DOWN).perform()
    assert focused(driver).startswith("table ")
    before = driver.execute_script("return document.querySelector('#graph svg > g').getAttribute('transform')")
    ActionChains(driver).send_keys("+").perform()
    assert driver.execute_script("return document.querySelector('#graph svg > g').getAttribute('transform')") != before
    ActionChains(driver).send_keys(Keys.ENTER).perform()
    until(driver, "location.pathname.startsWith('/object/')")


def test_the_list_is_sorted_and_searched(look: Open, server: ConsoleServer) -> None:
    driver = look(server, "/#list")
    rows = "[...document.querySelectorAll('#objects tbody tr:not([hidden])')]"
    driver.find_element(By.XPATH, "//table[@id='objects']//th/button[text()='rows']").click()
    numbers = driver.execute_script(f"return {rows}.map(r => Number(r.children[3].dataset.sort))")
    assert numbers == sorted(numbers, reverse=True)
    driver.find_element(By.XPATH, "//table[@id='objects']//th/button[text()='name']").send_keys(Keys.ENTER)
    found = driver.execute_script(f"return {rows}.map(r => r.dataset.name)")
    assert found == sorted(found)
    driver.find_element(By.ID, "search").send_keys("constraint")
    assert driver.execute_script(f"return {rows}.length") == 4


def test_dark_is_chosen_and_remembered(look: Open, server: ConsoleServer) -> None:
    driver = look(server, "/advice")
    light = driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
    driver.find_element(By.ID, "theme").click()
    driver.get(server.url + "refreshes")
    assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"
    assert driver.execute_script("return getComputedStyle(document.documentElement).backgroundColor") != light
    driver.execute_script("localStorage.clear()")


def test_pages_follow_the_lake_while_they_are_open(look: Open, living: tuple[nabla.Lake, ConsoleServer]) -> None:
    lake, server = living
    driver = look(server)
    until(driver, "document.getElementById('live').dataset.state === 'on'")
    pay(lake)
    until(driver, f"document.body.dataset.version === '{lake.version}'")
    node = driver.execute_script(
        "return [...document.querySelectorAll('.node')].find(n => n.nabla.name === 'pay').textContent"
    )
    assert f"{lake.status()['pay'].rows} rows" in node
    driver.get(server.url + "object/sums")
    until(driver, "document.getElementById('live').dataset.state === 'on'")
    driver.find_element(By.CSS_SELECTOR, "#form-2 summary").click()
    lake.refresh("sums", mode="incremental")
    until(driver, "document.querySelector('.badge').textContent === 'fresh'")
    assert driver.execute_script("return document.getElementById('form-2').open")  # what was opened stays open


def test_a_refresh_is_shown_while_it_runs(look: Open, living: tuple[nabla.Lake, ConsoleServer]) -> None:
    lake, server = living
    pay(lake)
    driver = look(server, "/refreshes")
    until(driver, "document.getElementById('live').dataset.state === 'on'")

    def slowly(event: LakeEvent) -> None:
        if isinstance(event, StepStarted):
            time.sleep(2)

    with lake.observe(slowly):
        running = threading.Thread(target=lake.refresh, args=("sums",), kwargs={"mode": "incremental"})
        running.start()
        until(driver, "document.querySelector('#running .run li')")
        assert "sums" in driver.find_element(By.ID, "running").text
        until(driver, "document.getElementById('running').textContent.includes('step 1 of')")
        assert driver.find_element(By.ID, "live").get_attribute("data-state") == "running"
        running.join()
    until(driver, "document.getElementById('running').textContent.includes('Nothing runs')")
    until(driver, "document.querySelector('#past tbody tr').dataset.view === 'sums'")


def test_buttons_refresh_and_verify_only_where_it_is_allowed(
    look: Open, living: tuple[nabla.Lake, ConsoleServer], server: ConsoleServer
) -> None:
    lake, allowed = living
    pay(lake)
    driver = look(allowed, "/object/of")
    before = lake.status()["of"].sources["pay"]
    driver.find_element(By.CSS_SELECTOR, "[data-action=refresh]").click()
    until(driver, "document.getElementById('toast').textContent.startsWith('of:')")
    assert lake.status()["of"].sources["pay"] > before
    until(driver, "document.querySelector('.badge').textContent === 'fresh'")
    driver = look(server, "/object/of")
    assert driver.find_elements(By.CSS_SELECTOR, "[data-action]") == []
    said = driver.execute_async_script(
        "const done = arguments[0]; nablaAsk('refresh', {names: []}).then(() => done('did it'), error => done(error.message))"
    )
    assert "actions are off" in said
    assert len(complaints(driver)) == 1  # the answer 404, which the browser notes


def test_a_strangers_page_can_do_nothing(
    look: Open, living: tuple[nabla.Lake, ConsoleServer], server: ConsoleServer
) -> None:
    """The page of another origin, here another port, sends what it likes."""
    lake, target = living
    version = lake.version
    driver = look(server)
    for options in (
        "{method: 'POST', mode: 'no-cors', body: '{}'}",
        "{method: 'POST', headers: {'content-type': 'application/json'}, body: '{}'}",
    ):
        said = driver.execute_async_script(
            f"const done = arguments[0]; fetch('{target.url}actions/refresh', {options})"
            ".then(r => done(r.type + r.status), error => done('refused'))"
        )
        assert said == "refused"  # the console's own policy lets its pages talk to nobody else
    driver.get("data:text/html,<title>stranger</title>")
    said = driver.execute_async_script(
        f"const done = arguments[0]; fetch('{target.url}actions/refresh', {{method: 'POST', mode: 'no-cors', body: '{{}}'}})"
        ".then(r => done(r.type + r.status), error => done('refused'))"
    )
    assert said in ("opaque0", "refused")  # it was sent, and answered with 403
    assert lake.version == version
    complaints(driver)


def test_hostile_texts_are_shown_and_not_obeyed(look: Open, hostile: nabla.Lake) -> None:
    with served(hostile, Allowed(refresh=True)) as server:
        for page in ("/", "/#list", "/refreshes", "/advice", "/object/sums", "/object/one"):
            driver = look(server, page)
            until(driver, "document.readyState === 'complete'")
            assert (
                driver.execute_script("return document.querySelectorAll('main img, main script:not([type])').length")
                == 0
            )
        shown = driver.find_element(By.TAG_NAME, "main").text
        assert "<img src=x onerror=alert(1)>" in shown
        driver.get(server.url + "object/sums")
        assert "<script>alert" in driver.find_element(By.TAG_NAME, "main").text


def test_static_pages_work_from_a_folder(look: Open, kept: nabla.Lake, tmp_path: Path) -> None:
    index = write_pages(kept, tmp_path / "out")[0]
    driver = look(index)
    until(driver, "document.body.dataset.graph")
    node = "[...document.querySelectorAll('.node')].find(n => n.nabla.name === 'sums')"
    driver.execute_script(f"{node}.dispatchEvent(new MouseEvent('dblclick', {{bubbles: true}}))")
    until(driver, "location.pathname.endsWith('object/sums.html')")
    assert driver.find_element(By.TAG_NAME, "h1").text.startswith("sums")
    driver.find_element(By.LINK_TEXT, "Refreshes").click()
    until(driver, "location.pathname.endsWith('refreshes.html')")
