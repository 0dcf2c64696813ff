"""An open lake as the modules of this room get it: the log, the Spark sessions, the clock, and what this process keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nabla.algebra.clock import Instant
from nabla.engine import intake
from nabla.engine.spark.meaning import Settings, zone_of
from nabla.errors import NablaError
from nabla.frontends.spark_sql.failures import failed, machine_fault, of_java
from nabla.lake.events import Events
from nabla.lake.objects.names import Names
from nabla.lake.refresh.subscriptions import Subscriptions
from nabla.lake.running import HEART
from nabla.lake.spark import LakeSpark
from nabla.lake.trust import Trust
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog


class LakeContext:
    """The open lake that modules get instead of `nabla.Lake`; threads may share it.

    `only_spark` lets Spark read all tables, however small they are: tests compare both ways. `rests_until` is the time before
    which this process does no more housekeeping by itself.
    """

    def __init__(self, log: LakeLog, spark: SparkSession | None, trust: Trust) -> None:
        self.log = log
        self.trust = trust
        self.spark = LakeSpark(log, spark, trust)
        self.subscriptions = Subscriptions(log)
        self.events = Events(log.path)
        self.events.observers.add(HEART.hear)
        self.only_spark = False
        self.rests_until = 0.0
        self._refreshed: set[tuple[str, str]] = set()

    @property
    def path(self) -> str:
        """The lake's folder."""
        return self.log.path

    def names(self, state: LakeState) -> Names:
        """Look-ups and checks by name in a state of the lake."""
        return Names(state, self.path)

    def now(self, settings: Settings) -> Instant:
        """The present moment, in the time zone of a view's settings. Starts Spark, if it is not running yet, for a view that
        has none of its own."""
        return Instant.now(zone_of(self.spark.settings(settings)))

    def is_cold(self, view: str) -> bool:
        """Whether this process has not computed a view yet: Spark is slow the first time."""
        return all(view != refreshed for refreshed, _ in self._refreshed)

    def note_refresh(self, view: str, mode: str) -> bool:
        """Remember that a view was refreshed in a mode, and tell whether that was the first time in this process."""
        first = (view, mode) not in self._refreshed
        self._refreshed.add((view, mode))
        return first

    def translate(self, error: PySparkException | Py4JJavaError, place: str) -> NablaError:
        """The error of this lake for an error of Spark."""
        if fault := machine_fault(error, place):
            return fault
        known = of_java(error) if isinstance(error, Py4JJavaError) else error
        return intake.refusal(known, place) or failed(known, place, list(self.log.state().entries))

    @contextmanager
    def translating(self, place: str) -> Iterator[None]:
        """Turn errors that Spark raises inside into errors of this lake."""
        try:
            yield
        except (PySparkException, Py4JJavaError) as error:  # PySpark has classes for some errors of Java only
            raise self.translate(error, place) from None


class HasContext(Protocol):
    """A lake that users hold, for the few functions outside of it that take one."""

    @property
    def context(self) -> LakeContext: ...
