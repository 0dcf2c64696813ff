"""The work of Spark for a group of jobs, from its own status store: jobs, rows and bytes read, bytes written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    jobs: int
    rows_read: int
    bytes_read: int
    bytes_written: int


@dataclass
class JobGroup:
    """The jobs of one refresh, in the thread that it runs in. Spark is not started before there is something to do for it:
    a small refresh needs none."""

    session: Callable[[], SparkSession]
    name: str
    description: str
    begun: bool = False

    def begin(self) -> None:
        if not self.begun:
            self.session().sparkContext.setJobGroup(self.name, self.description)
            self.begun = True

    def cancel(self) -> None:
        """End the jobs of the group that are running."""
        if self.begun:
            self.session().sparkContext.cancelJobGroup(self.name)

    @property
    def jobs(self) -> int:
        """The number of jobs that ran in the group, once it has begun."""
        return len(self.session().sparkContext.statusTracker().getJobIdsForGroup(self.name))


def work_of(spark: SparkSession, group: str) -> Work:
    """Ask the store until it has seen every job end, because its listener lags."""
    tracker = spark.sparkContext.statusTracker()
    jobs = list(tracker.getJobIdsForGroup(group))
    store = spark.sparkContext._jsc.sc().statusStore()
    rows = read = written = 0
    for job in jobs:
        info = tracker.getJobInfo(job)
        for _ in range(50):
            if info is None or info.status != "RUNNING":
                break
            time.sleep(0.02)
            info = tracker.getJobInfo(job)
        for stage in info.stageIds if info else ():
            try:
                data = store.lastStageAttempt(stage)
            except Py4JJavaError:  # a stage that a later job skipped, and that the store has since let go
                continue
            rows += data.inputRecords()
            read += data.inputBytes()
            written += data.outputBytes()
    return Work(len(jobs), rows, read, written)
