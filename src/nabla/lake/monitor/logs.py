"""Structured logs: the events of lakes as records of the logger `nabla`, with lake, view and run as fields.

Runs and views are logged at INFO, failures and views that are held back at WARNING, steps and queries at DEBUG. Nothing is
printed unless the program, or `NABLA_LOG=json`, asks for records of these levels.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any, TextIO

from nabla._arguments import check_arguments
from nabla.errors import NablaError
from nabla.lake.events import (
    Committed,
    LakeEvent,
    QueryEnded,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    ViewEnded,
    ViewPlanned,
    ViewStarted,
)

_LOG = logging.getLogger("nabla")
FIELD = "nabla"
"""The attribute of a record that has the fields."""


def log_event(event: LakeEvent) -> None:
    """Log an event, if anybody listens to records of its level. Without any handler Python would print warnings, and
    errors that are raised as well are not worth that."""
    if not isinstance(event, ViewEnded | RunEnded) and not _LOG.isEnabledFor(logging.INFO):
        return  # as almost always, and at once
    level = _level(event)
    if _LOG.isEnabledFor(level) and _LOG.hasHandlers():
        _LOG.log(level, "%s", _sentence(event), extra={FIELD: _fields(event)})


def _level(event: LakeEvent) -> int:
    match event:
        case ViewEnded(error=error) | RunEnded(error=error) if error is not None:
            return logging.WARNING
        case ViewEnded(report=report) if report is not None and report.mode == "held":
            return logging.WARNING
        case ViewEnded(report=report) if report is not None and report.mode == "skip":
            return logging.DEBUG
        case RunStarted() | RunEnded() | ViewEnded() | Committed():
            return logging.INFO
    return logging.DEBUG


def _sentence(event: LakeEvent) -> str:
    match event:
        case RunStarted():
            return f"{event.kind} of {', '.join(event.names)} has begun" if event.names else f"{event.kind} has begun"
        case ViewStarted():
            return f"view {event.view} has begun"
        case ViewPlanned():
            return f"view {event.view}: {event.mode}, {event.reason}"
        case StepStarted():
            return f"view {event.view}, step {event.number}: {event.what}"
        case QueryEnded():
            return f"view {event.view}, step {event.number}: a query by {event.by} took {event.seconds:.3f} s"
        case StepEnded():
            return f"view {event.view}, step {event.number} has ended: {event.what}, {event.seconds:.3f} s"
        case ViewEnded(error=None, report=None):
            return f"view {event.view} has ended"
        case ViewEnded(error=None, report=report):
            assert report is not None
            return f"view {event.view}: {report.mode}, +{report.inserted} -{report.deleted}, {report.seconds:.3f} s"
        case ViewEnded():
            return f"view {event.view} has failed: {event.error}"
        case Committed():
            return f"version {event.version} of the lake: {event.operation}"
        case RunEnded(error=None):
            return f"{event.kind} has ended, {event.seconds:.3f} s"
        case RunEnded():
            return f"{event.kind} has failed: {event.error}"
    return type(event).__name__


def _fields(event: LakeEvent) -> dict[str, Any]:
    said = event.to_dict()
    said.pop("at")
    report = said.pop("report", None)
    if isinstance(report, dict):
        said |= {k: report[k] for k in ("mode", "reason", "inserted", "deleted", "seconds", "version", "sources")}
    if isinstance(event, RunEnded):
        said["reports"] = len(event.reports)
    return said


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, the event's fields, and the error, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        said: dict[str, Any] = {
            "time": f"{when}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= {k: v for k, v in getattr(record, FIELD, {}).items() if k not in said}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


class JsonLog:
    """Records of the logger `nabla` printed as lines of JSON, until this is cancelled: then the logger is as it was."""

    def __init__(self, level: int, stream: TextIO) -> None:
        self._before = _LOG.level, _LOG.propagate
        self._handler = logging.StreamHandler(stream)
        self._handler.setFormatter(JsonFormatter())
        self._handler.setLevel(level)
        _LOG.addHandler(self._handler)
        _LOG.setLevel(level)
        _LOG.propagate = False  # a handler of the program would print the same in another form

    def cancel(self) -> None:
        """Print no more."""
        if self._handler in _LOG.handlers:
            _LOG.removeHandler(self._handler)
            level, _LOG.propagate = self._before
            _LOG.setLevel(level)


@check_arguments
def log_json(level: str = "INFO", stream: Any = None) -> JsonLog:
    """Print records of the logger `nabla` from a level on as lines of JSON, to standard error unless a stream is given.
    `cancel` the result to end it."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise NablaError(
            "NABLA_ARGUMENT",
            f"there is no level {level!r}",
            place="level=",
            remedy="Use DEBUG, INFO, WARNING or ERROR.",
        )
    return JsonLog(number, stream or sys.stderr)


def log_as_environment_says() -> JsonLog | None:
    """`NABLA_LOG=json` prints logs as JSON, `NABLA_LOG=json:debug` those of steps and queries, too."""
    wanted, _, level = os.environ.get("NABLA_LOG", "").partition(":")
    if wanted.lower() != "json":
        return None
    return log_json(level.upper() if level.upper() in logging.getLevelNamesMapping() else "INFO")
