"""`nabla.monitor`: logs as JSON, metrics for Prometheus, OpenLineage and OpenTelemetry, for programs that want them.

    from nabla import monitor

    monitor.log_json()
    metrics = monitor.metrics(lake)

Each function is about all lakes of this process. Nothing is sent anywhere unless one of them is called, or the user has
configured it in the environment (`NABLA_LOG`, `OPENLINEAGE_URL` and others).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nabla._arguments import check_arguments
from nabla.errors import NablaError, wrong_argument
from nabla.lake.context import HasContext, LakeContext
from nabla.lake.events import Observation, observe_all
from nabla.lake.monitor.logs import log_json

if TYPE_CHECKING:
    from nabla.lake.monitor.metrics import Metrics

__all__ = ["log_json", "metrics", "observe_all", "openlineage", "spans"]


def metrics(*lakes: HasContext, registry: Any = None) -> Metrics:
    """Count what lakes do for Prometheus, from now on, and measure the given ones when their metrics are read.

    `metrics(lake).asgi` and `.wsgi` are applications to mount, `.serve(port)` starts a server. Needs `prometheus-client`
    (`nabla-spark[metrics]`).
    """
    try:
        from nabla.lake.monitor.metrics import Metrics
    except ImportError as error:
        raise _missing("prometheus-client", "metrics") from error
    for lake in lakes:
        if not isinstance(getattr(lake, "context", None), LakeContext):
            raise wrong_argument("lakes", lake, "lakes that `nabla.open` gave")
    return Metrics([lake.context for lake in lakes], registry)


@check_arguments
def openlineage(client: Any = None, namespace: str | None = None) -> Observation:
    """Send OpenLineage's events of all lakes of this process: through a client of yours, or through one as its configuration
    says (openlineage.yml, OPENLINEAGE_URL and others). Needs `openlineage-python` (`nabla-spark[openlineage]`)."""
    try:
        from nabla.lake.monitor.openlineage import send_events
    except ImportError as error:
        raise _missing("openlineage-python", "openlineage") from error
    if client is not None and not hasattr(client, "emit"):
        raise wrong_argument("client", client, "an OpenLineageClient")
    return send_events(client, namespace)[0]


def spans(tracer_provider: Any = None) -> Observation:
    """Make OpenTelemetry's spans of all lakes of this process, with a provider of yours or the global one. Needs
    `opentelemetry-api`; a program that has imported OpenTelemetry's SDK when it opens its first lake has it without asking."""
    try:
        from nabla.lake.monitor.spans import SpanObserver
    except ImportError as error:
        raise _missing("opentelemetry-api", "telemetry") from error
    return observe_all(SpanObserver(tracer_provider).hear)


def _missing(package: str, extra: str) -> NablaError:
    return NablaError("NABLA_NOT_INSTALLED", f"{package} is not installed", remedy=f"Install nabla-spark[{extra}].")
