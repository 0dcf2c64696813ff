"""What a user has configured outside of the program: looked at when the first lake is opened."""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress

from nabla.errors import NablaError
from nabla.lake.events import Observation, observe_all
from nabla.lake.monitor.logs import log_as_environment_says, log_event
from nabla.lake.monitor.progress import show_progress

_LOG = logging.getLogger("nabla")
_ACTIVE: dict[str, Observation] = {}


def activate() -> None:
    """Let observers hear that the environment asks for. Doing it again changes nothing."""
    if "logs" not in _ACTIVE:
        _ACTIVE["logs"] = observe_all(log_event)
        log_as_environment_says()
        show_progress()
        if openlineage_is_configured():
            _send_to_openlineage()
    if "spans" not in _ACTIVE and "opentelemetry.sdk" in sys.modules:  # the program itself has set it up
        with suppress(ImportError):
            from nabla.lake.monitor.spans import SpanObserver

            _ACTIVE["spans"] = observe_all(SpanObserver().hear)


def _send_to_openlineage() -> None:
    try:
        from nabla.lake.monitor.openlineage import send_events
    except ImportError:
        _LOG.warning("OpenLineage is configured, but not installed. Install nabla-spark[openlineage].")
        return
    try:
        _ACTIVE["openlineage"], _ = send_events(None, None)
    except NablaError as error:  # a lake opens, whatever its receiver is
        _LOG.warning("%s", error)


def openlineage_is_configured() -> bool:
    """Whether the user has configured OpenLineage: by variables of the environment, or by its file."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").lower() in ("true", "1"):
        return False
    names = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
    if any(os.environ.get(name) for name in names) or any(n.startswith("OPENLINEAGE__") for n in os.environ):
        return True
    files = ("openlineage.yml", os.path.expanduser("~/.openlineage/openlineage.yml"))
    return any(map(os.path.isfile, files))
