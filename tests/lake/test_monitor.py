"""Logs, metrics, OpenLineage and spans of a lake that is refreshed; without a JVM."""

from __future__ import annotations

import io
import json
import logging
import socket
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from openlineage.client import OpenLineageClient
from openlineage.client.serde import Serde
from openlineage.client.transport.transport import Transport
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families
from referencing import Registry, Resource

import nabla
from nabla import monitor
from nabla.lake.events import LakeEvent, RunEnded, RunStarted, ViewEnded, ViewPlanned
from nabla.lake.facade import Lake
from nabla.lake.monitor import activate
from nabla.lake.monitor.logs import log_as_environment_says
from nabla.lake.monitor.openlineage import send_events

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("monitor")
    with tarfile.open(DATA / "lake-format-4.tar.xz") as tar:
        tar.extractall(folder)  # our own archive
    return nabla.open(folder / "lake", trust=True)


class Told(Transport):
    """A receiver that remembers what it is sent, or is slow, or fails."""

    kind = "told"

    def __init__(self, seconds: float = 0.0, fails: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self.seconds, self.fails = seconds, fails

    def emit(self, event: Any) -> None:
        time.sleep(self.seconds)
        if self.fails:
            raise ConnectionError("nobody is there")
        self.events.append(Serde.to_dict(event))


@pytest.fixture(scope="module")
def published() -> Registry[Any]:
    """The schemas as OpenLineage publishes them."""
    texts = [json.loads(path.read_text()) for path in (DATA / "openlineage").glob("*.json")]
    return Registry().with_resources([(text["$id"], Resource.from_contents(text)) for text in texts])


def validate(published: Registry[Any], url: str, value: Any) -> None:
    checker = Draft202012Validator(
        {"$ref": url}, registry=published, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    assert [f"{e.json_path}: {e.message}" for e in checker.iter_errors(value)] == []


def facets_of(event: dict[str, Any]) -> Iterator[dict[str, Any]]:
    holders = [event["run"]["facets"], event["job"]["facets"]]
    for dataset in (*event["inputs"], *event["outputs"]):
        holders += [dataset["facets"], dataset.get("outputFacets", {}), dataset.get("inputFacets", {})]
    return (facet for holder in holders for facet in holder.values())


def test_a_refresh_sends_events_that_fit_the_published_schema(lake: Lake, published: Registry[Any]) -> None:
    told = Told()
    observation, observer = send_events(OpenLineageClient(transport=told), "tests")
    with observation:
        lake.refresh("sums", "slow", mode="full")
        with pytest.raises(nabla.NablaError):
            lake.refresh("sums", mode="nothing")  # type: ignore[arg-type]
    observer.sender.close()
    for event in told.events:
        validate(published, event["schemaURL"], event)
        for facet in facets_of(event):
            validate(published, facet["_schemaURL"], facet)
    kinds = [(event["job"]["name"], event["eventType"]) for event in told.events]
    assert kinds[0] == ("lake.refresh", "START")
    assert kinds[-1] == ("lake.refresh", "COMPLETE")
    assert {("lake.sums", "START"), ("lake.sums", "COMPLETE"), ("lake.slow", "COMPLETE")} <= set(kinds)
    starts = {e["run"]["runId"] for e in told.events if e["eventType"] == "START"}
    assert starts == {e["run"]["runId"] for e in told.events if e["eventType"] == "COMPLETE"}

    ended = next(e for e in told.events if (e["job"]["name"], e["eventType"]) == ("lake.sums", "COMPLETE"))
    assert ended["run"]["facets"]["parent"]["run"]["runId"] == told.events[0]["run"]["runId"]
    assert ended["run"]["facets"]["nabla_refresh"]["mode"] == "full"
    assert "SUM(" in ended["job"]["facets"]["sql"]["query"].upper()
    (output,) = ended["outputs"]
    assert output["namespace"] == "file"
    assert Path(output["name"]).is_dir()
    assert [f["name"] for f in output["facets"]["schema"]["fields"]] == ["who", "total", "n"]
    assert output["facets"]["symlinks"]["identifiers"][0]["name"] == "sums"
    total = output["facets"]["columnLineage"]["fields"]["total"]["inputFields"]
    assert [(f["field"], f["transformations"][0]["subtype"]) for f in total] == [("amount", "AGGREGATION")]
    (decides,) = output["facets"]["columnLineage"]["dataset"]
    assert (decides["field"], decides["transformations"][0]["subtype"]) == ("who", "GROUP_BY")
    assert "rowCount" in output["outputFacets"]["outputStatistics"]
    assert {i["facets"]["version"]["datasetVersion"] for i in ended["inputs"]} == {
        str(lake.status()["sums"].sources["pay"])
    }


def test_transactions_and_failures_are_told(lake: Lake, published: Registry[Any]) -> None:
    told = Told()
    observation, observer = send_events(OpenLineageClient(transport=told), "tests")
    with observation:
        with lake.transaction() as tx:
            tx.insert("pay", [{"who": 1, "amount": 5}])
        events, run = lake.context.events, ("sums", "incremental", "why", 1, {}, {}, {})
        with pytest.raises(nabla.NablaError), events.run("refresh", ["sums"]) as failing:
            failing.view_started(["sums"])
            failing.tell(ViewPlanned, *run)
            raise nabla.NablaError("NABLA_TEST", "it cannot be")
    observer.sender.close()
    for event in told.events:
        validate(published, event["schemaURL"], event)
        for facet in facets_of(event):
            validate(published, facet["_schemaURL"], facet)
    transaction = next(
        e for e in told.events if e["job"]["name"] == "lake.transaction" and e["eventType"] == "COMPLETE"
    )
    (output,) = transaction["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert transaction["run"]["facets"]["nabla_commit"]["version"] == lake.version
    failed = [(e["job"]["name"], e["run"]["facets"]["errorMessage"]["message"]) for e in told.events[-2:]]
    assert [e["eventType"] for e in told.events[-2:]] == ["FAIL", "FAIL"]
    assert [name for name, _ in failed] == ["lake.sums", "lake.refresh"]
    assert "it cannot be" in failed[0][1]


def test_a_failing_or_slow_receiver_harms_no_refresh(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    failing, slow = Told(fails=True), Told(seconds=1.0)
    first, observer = send_events(OpenLineageClient(transport=failing), None)
    second, waiting = send_events(OpenLineageClient(transport=slow), None)
    with first, second:
        reports = [lake.refresh("sums", mode="full") for _ in range(4)]
    assert [report["sums"].mode for report in reports] == ["full"] * 4
    assert len(slow.events) < 16, "events wait for the slow one, and no refresh does"
    slow.seconds = 0.0
    observer.sender.close()
    waiting.sender.close()
    assert len(slow.events) == 16
    assert caplog.text.count("does not take events") == 1


def test_metrics_are_counted_and_read_by_a_parser(lake: Lake) -> None:
    metrics = monitor.metrics(lake)
    lake.refresh("sums", mode="full")
    with pytest.raises(nabla.NablaError), lake.context.events.run("refresh") as run:
        run.view_started(['od"d\n'])
        raise nabla.NablaError("NABLA_TEST", "no")
    families = {family.name: family for family in text_string_to_metric_families(metrics.text())}

    def value(name: str, **labels: str) -> float:
        samples = [s for f in families.values() for s in f.samples if s.name == name]
        (found,) = [s.value for s in samples if s.labels == {"lake": lake.path, **labels}]
        return found

    assert value("nabla_refreshes_total", view="sums", mode="full") == 1
    assert value("nabla_refresh_seconds_count", view="sums", mode="full") == 1
    assert value("nabla_failures_total", view='od"d\n', code="NABLA_TEST") == 1
    assert value("nabla_runs_total", kind="refresh", outcome="done") == 1
    assert value("nabla_view_rows", view="sums") == lake.status()["sums"].rows
    assert value("nabla_view_bytes", view="sums") > 0
    assert value("nabla_view_behind", view="sums") == 0
    assert 0 <= value("nabla_view_age_seconds", view="sums") < 60
    assert value("nabla_running", kind="refresh") == 0
    assert value("nabla_lake_version") == lake.version
    assert value("nabla_lake_up") == 1
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    stop = metrics.serve(port)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert b"nabla_refreshes_total" in answer.read()
        with pytest.raises(nabla.NablaError, match="NABLA_PORT"):
            metrics.serve(port)
    finally:
        stop()
    started: list[str] = []
    body = metrics.wsgi({"REQUEST_METHOD": "GET", "PATH_INFO": "/"}, lambda status, headers: started.append(status))
    assert started == ["200 OK"]
    assert b"nabla_view_rows" in b"".join(body)
    assert callable(metrics.asgi)
    metrics.cancel()
    lake.refresh("sums", mode="full")
    assert value("nabla_refreshes_total", view="sums", mode="full") == 1


def test_logs_are_lines_of_json_with_lake_view_and_run(lake: Lake) -> None:
    logger, lines = logging.getLogger("nabla"), io.StringIO()
    before = logger.level, logger.propagate, list(logger.handlers)
    printed = monitor.log_json("debug", lines)
    try:
        lake.refresh("sums", mode="full")
        logger.warning("plain", exc_info=(ValueError, ValueError("x"), None))
    finally:
        printed.cancel()
    printed.cancel()
    assert (logger.level, logger.propagate, list(logger.handlers)) == before
    said = [json.loads(line) for line in lines.getvalue().splitlines()]
    of_lake = [one for one in said if "run" in one]
    assert {one["lake"] for one in of_lake} == {lake.path}
    assert len({one["run"] for one in of_lake}) == 1
    ended = next(one for one in of_lake if one["event"] == "ViewEnded")
    assert (ended["view"], ended["mode"], ended["level"]) == ("sums", "full", "INFO")
    assert {"StepStarted", "QueryEnded"} <= {one["event"] for one in of_lake}
    assert "ValueError: x" in said[-1]["exception"]
    with pytest.raises(nabla.NablaError, match="NABLA_ARGUMENT"):
        monitor.log_json("loud")


@pytest.mark.parametrize(
    ("said", "level"), [("json", logging.INFO), ("JSON:debug", logging.DEBUG), ("json:loud", logging.INFO), ("x", None)]
)
def test_the_environment_asks_for_json(said: str, level: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NABLA_LOG", said)
    printed = log_as_environment_says()
    try:
        assert (printed and logging.getLogger("nabla").level) == level
    finally:
        if printed:
            printed.cancel()


def test_spans_are_nested_from_the_refresh_down_to_the_query(lake: Lake) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with monitor.spans(provider):
        with provider.get_tracer("program").start_as_current_span("program"):
            lake.refresh("sums", mode="full")
        with pytest.raises(nabla.NablaError), lake.context.events.run("refresh") as run:
            run.view_started(["v"])
            raise nabla.NablaError("NABLA_TEST", "no")
    spans = {span.context.span_id: span for span in kept.get_finished_spans()}

    def path(span: Any) -> list[str]:
        above = spans.get(span.parent.span_id) if span.parent else None
        return [*(path(above) if above else []), span.name]

    paths = [path(span) for span in spans.values()]
    assert ["program", "nabla refresh", "view sums", "recompute", "query by driver"] in paths
    view = next(span for span in spans.values() if span.name == "view sums")
    assert view.attributes["nabla.mode"] == "full"
    failed = [span.name for span in spans.values() if span.status.status_code.name == "ERROR"]
    assert set(failed) == {"view v", "nabla refresh"}


def test_what_the_environment_asks_for_is_active_when_a_lake_is_opened(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not activate.openlineage_is_configured()
    monkeypatch.setattr(activate, "_ACTIVE", {})
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "file")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__LOG_FILE_PATH", str(tmp_path / "events.json"))
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__APPEND", "true")
    nabla.open(lake.path, trust=True)
    assert set(activate._ACTIVE) >= {"logs", "openlineage"}
    try:
        lake.refresh("sums", mode="full")
        end = time.time() + 10
        while time.time() < end and not (tmp_path / "events.json").exists():
            time.sleep(0.02)
    finally:
        for observation in activate._ACTIVE.values():
            observation.cancel()
    assert "lake.refresh" in (tmp_path / "events.json").read_text()
    monkeypatch.setenv("OPENLINEAGE_DISABLED", "true")
    assert not activate.openlineage_is_configured()


def test_without_a_package_the_function_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, function in (
        ("metrics", monitor.metrics),
        ("openlineage", monitor.openlineage),
        ("spans", monitor.spans),
    ):
        monkeypatch.setitem(__import__("sys").modules, f"nabla.lake.monitor.{module}", None)
        with pytest.raises(nabla.NablaError, match="NABLA_NOT_INSTALLED"):
            function()


def test_wrong_arguments_are_refused(lake: Lake) -> None:
    wrong: Any = 5
    for call in (
        lambda: monitor.metrics(wrong),
        lambda: monitor.openlineage(wrong),
        lambda: monitor.openlineage(namespace=wrong),
        lambda: monitor.log_json(wrong),
    ):
        with pytest.raises(nabla.NablaError, match="NABLA_ARGUMENT"):
            call()


def test_events_of_a_view_come_in_order(lake: Lake) -> None:
    events: list[LakeEvent] = []
    with lake.observe(events.append):
        lake.refresh("sums", mode="full")
    kinds = [type(event) for event in events]
    assert kinds[0] is RunStarted
    assert kinds[-2:] == [ViewEnded, RunEnded]
