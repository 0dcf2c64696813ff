"""An open lake as the modules of this room get it: the log, the Spark sessions, the clock, and what this process keeps."""

from __future__ import annotations

from typing import Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nabla.algebra.clock import Instant
from nabla.errors import NablaError
from nabla.frontends.spark_sql.failures import failed
from nabla.lake.objects.names import Names
from nabla.lake.refresh.subscriptions import Subscriptions
from nabla.lake.spark import LakeSpark
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog


class LakeContext:
    """`nabla.Lake` is the surface for users; everything behind it takes this. Several threads may share one.

    `only_spark_rounds` lets Spark evaluate recursions however small they are: tests compare both ways.
    """

    def __init__(self, log: LakeLog, spark: SparkSession | None) -> None:
        self.log = log
        self.spark = LakeSpark(log, spark)
        self.subscriptions = Subscriptions(log)
        self.only_spark_rounds = False
        self._refreshed: set[tuple[str, str]] = set()

    @property
    def path(self) -> str:
        """The lake's folder."""
        return self.log.path

    def names(self, state: LakeState) -> Names:
        """Look-ups and checks by name in a state of the lake."""
        return Names(state, self.path)

    def now(self) -> Instant:
        """The present moment, in the time zone of the Spark session. Starts Spark if it is not running yet."""
        return Instant.now(str(self.spark.session.conf.get("spark.sql.session.timeZone")))

    def is_cold(self, view: str) -> bool:
        """Whether this process has not computed a view yet: Spark is slow the first time."""
        return all(view != refreshed for refreshed, _ in self._refreshed)

    def note_refresh(self, view: str, mode: str) -> bool:
        """Remember that a view was refreshed in a mode, and tell whether that was the first time in this process."""
        first = (view, mode) not in self._refreshed
        self._refreshed.add((view, mode))
        return first

    def translate(self, error: PySparkException, place: str) -> NablaError:
        """An error of Spark in the words of this lake."""
        return failed(error, place, list(self.log.state().entries))


class HasContext(Protocol):
    """A lake that users hold, for the few functions outside of it that take one."""

    @property
    def context(self) -> LakeContext: ...
