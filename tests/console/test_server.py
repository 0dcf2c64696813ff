"""The console's server: its pages come from logs alone, and it answers nobody whom it should not. Without a JVM."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest
from console_lakes import HOSTILE
from starlette.testclient import TestClient

import nabla
from nabla.console.guard import COOKIE, is_loopback
from nabla.console.live import Pulse
from nabla.console.pages import Allowed, Pages
from nabla.console.server import ConsoleServer, make_app
from nabla.errors import NablaError

HOME = "http://127.0.0.1"
OWN = {"origin": HOME, "sec-fetch-site": "same-origin", "content-type": "application/json"}


@pytest.fixture(autouse=True)
def _no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever these tests do starts no Spark."""

    def refuse(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("nabla.lake.spark.build_session", refuse)


@pytest.fixture(scope="module")
def client(kept: nabla.Lake) -> Iterator[TestClient]:
    with TestClient(make_app(kept, Allowed()), base_url=HOME) as made:
        yield made


@pytest.fixture(scope="module")
def acting(kept: nabla.Lake) -> TestClient:
    return TestClient(make_app(kept, Allowed(refresh=True, query=True)), base_url=HOME)


def graph_of(page: str) -> dict[str, list[dict[str, object]]]:
    found = re.search(r'<script type="application/json" id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found is not None
    graph: dict[str, list[dict[str, object]]] = json.loads(found[1])
    return graph


def test_every_page_is_there_without_spark(client: TestClient, kept: nabla.Lake) -> None:
    names = [name for name in kept.status() if name != "no_loop"]  # which is as acyclic
    pages = ["/", "/refreshes", "/advice", *(f"/object/{name}" for name in names)]
    for page in pages:
        answer = client.get(page)
        assert answer.status_code == 200, page
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "<script>" not in answer.text
        assert " style=" not in answer.text
        assert not re.search(r"\son\w+=", answer.text)


def test_the_graph_has_every_object_and_who_reads_whom(client: TestClient, kept: nabla.Lake) -> None:
    graph = graph_of(client.get("/").text)
    assert {node["name"] for node in graph["nodes"]} == set(kept.status())
    assert {("boss", "of"), ("pay", "of")} <= {(edge["from"], edge["to"]) for edge in graph["edges"]}
    nodes = {str(node["name"]): node for node in graph["nodes"]}
    assert (nodes["sums"]["freshness"], nodes["both"]["freshness"], nodes["pay"]["freshness"]) == (
        "stale",
        "fresh",
        "source",
    )
    assert (nodes["up"]["kind"], nodes["up"]["program"]) == ("rule", "hierarchy")
    assert {edge["rows"] for edge in graph["edges"] if edge["from"] == "pay"} == {6}


def test_the_page_of_a_view_has_all_that_is_known_of_it(client: TestClient) -> None:
    page = client.get("/object/sums").text
    for part in (
        "Next refresh",
        "Definition",
        "Plan",
        "Maintenance",
        "History",
        "Sources",
        "State",
        "Last change",
        "Columns",
    ):
        assert f">{part}" in page, part
    assert '<span class="t-keyword">GROUP</span>' in page
    assert 'href="/object/pay"><code>pay.amount</code>' in page  # lineage of a column
    assert re.search(r'class="added".*?117', page, re.DOTALL)
    assert re.search(r'class="num pending">6<', page)
    assert "up(X, Y)" in client.get("/object/up").text.replace("<span", "<span").replace(
        '<span class="t-function">up</span>', "up"
    )


def test_a_page_that_is_not_there_says_so(client: TestClient) -> None:
    answer = client.get("/object/<script>")
    assert answer.status_code == 404
    assert "<script>" not in answer.text
    assert client.get("/object/../../etc/passwd").status_code == 404
    assert client.get("/assets/../server.py").status_code == 404
    assert client.get("/query").status_code == 404


def test_only_its_own_names_reach_it(client: TestClient) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost.evil:4040"):
        assert client.get("/", headers={"host": host}).status_code == 421, host
    for host in ("localhost", "127.0.0.1:4040", "[::1]:4040", "LOCALHOST:1"):
        assert client.get("/", headers={"host": host}).status_code == 200, host


def test_without_leave_there_are_no_actions(client: TestClient) -> None:
    for action in ("refresh", "verify", "query"):
        answer = client.post(f"/actions/{action}", json={}, headers=OWN)
        assert answer.status_code == 404
        assert "--allow" in answer.json()["error"]["message"]
    assert "data-action" not in client.get("/object/sums").text


def test_actions_are_for_its_own_pages(acting: TestClient) -> None:
    strangers = (
        {**OWN, "origin": "https://evil.example"},
        {**OWN, "origin": "null"},
        {**OWN, "sec-fetch-site": "cross-site"},
        {**OWN, "sec-fetch-site": "same-site"},
        {**OWN, "content-type": "text/plain"},
        {"content-type": "application/json"},
    )
    for headers in strangers:
        assert acting.post("/actions/refresh", content="{}", headers=headers).status_code == 403, headers
    assert acting.get("/actions/refresh").status_code == 405
    for body in ("[]", "{", '{"names": 1}', '{"names": [1]}', '{"sql": 1}'):
        action = "query" if "sql" in body else "refresh"
        assert acting.post(f"/actions/{action}", content=body, headers=OWN).status_code == 400, body
    assert acting.post("/actions/refresh", content="x" * 100_000, headers=OWN).status_code == 413
    unknown = acting.post("/actions/refresh", content='{"names": ["nothing"]}', headers=OWN)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (422, "NABLA_UNKNOWN_VIEW")
    assert "data-action" in acting.get("/object/sums").text


def test_beyond_this_machine_a_token_is_needed(kept: nabla.Lake) -> None:
    client = TestClient(make_app(kept, Allowed(refresh=True), token="secret"), base_url="http://lake.example")
    assert client.get("/").status_code == 403
    assert client.get("/assets/console.css").status_code == 403
    assert client.get("/?token=wrong").status_code == 403
    admitted = client.get("/advice?token=secret&x=1", follow_redirects=False)
    assert (admitted.status_code, admitted.headers["location"]) == (303, "/advice?x=1")
    assert "HttpOnly" in admitted.headers["set-cookie"]
    assert "SameSite=strict" in admitted.headers["set-cookie"]
    sly = client.get("http://lake.example//evil.example/?token=secret", follow_redirects=False)
    assert sly.headers["location"] == "/evil.example/"
    assert client.get("/").status_code == 200  # by the cookie
    own = {**OWN, "origin": "http://lake.example"}
    assert client.post("/actions/refresh", content='{"names": ["x"]}', headers=own).status_code == 422
    assert client.post("/actions/refresh", content="{}", headers=OWN).status_code == 403
    client.cookies.clear()
    assert client.get("/metrics").status_code == 403
    assert "nabla_" in client.get("/metrics", headers={"authorization": "Bearer secret"}).text
    assert client.get("/", headers={"authorization": "Bearer other"}).status_code == 403
    assert client.get("/", headers={"cookie": f"{COOKIE}=other"}).status_code == 403


def test_only_loopback_goes_without_a_token(kept: nabla.Lake) -> None:
    assert [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "127.8.8.8")] == [True] * 4
    assert [is_loopback(h) for h in ("0.0.0.0", "::", "10.0.0.1", "example.org", "")] == [False] * 5
    local, everywhere = ConsoleServer(kept, "127.0.0.1", 0), ConsoleServer(kept, "0.0.0.0", 0)
    assert "token" not in local.url
    assert re.search(r"\?token=[\w-]{30,}$", everywhere.url)
    port = int(local.url.rstrip("/").rpartition(":")[2])
    with pytest.raises(NablaError, match="NABLA_PORT: the port is taken"):
        ConsoleServer(kept, "127.0.0.1", port)


def test_texts_of_a_hostile_lake_are_shown_and_not_obeyed(hostile: nabla.Lake) -> None:
    client = TestClient(make_app(hostile, Allowed(refresh=True, query=True)), base_url=HOME)
    seen = 0
    for page in ("/", "/refreshes", "/advice", "/query", "/object/sums", "/object/one", "/object/pay"):
        text = client.get(page).text
        assert "<script>alert" not in text, page
        assert "<img" not in text, page
        seen += "&lt;img src=x" in text or "\\u003cimg src=x" in text
    assert seen >= 3
    assert HOSTILE in {str(node["mode"]) for node in graph_of(client.get("/").text)["nodes"]}


def test_advice_names_wrong_keys_and_stale_views_with_commands(hostile: nabla.Lake) -> None:
    page = TestClient(make_app(hostile, Allowed()), base_url=HOME).get("/advice").text
    assert "The declared key of pay is wrong" in page
    assert "nabla sql &#39;SELECT `who`, COUNT(*) FROM `pay`" in page
    assert page.index("The declared key of pay") < page.index("of is stale")
    assert "nabla refresh of" in page


def test_listeners_hear_of_new_versions(kept: nabla.Lake) -> None:
    pulse = Pulse(Pages(kept.context, Allowed()))

    async def first(known: int) -> list[str]:
        events = pulse.events(known)
        return [await anext(events), await anext(events)]

    retry, lake = asyncio.run(first(kept.version - 1))
    assert retry.startswith("retry:")
    assert lake == f'event: lake\ndata: {{"version": {kept.version}}}\n\n'
