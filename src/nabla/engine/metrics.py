"""What Spark did for a group of jobs, from its own status store: jobs, rows and bytes read, bytes written."""

from __future__ import annotations

import time
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    jobs: int
    rows_read: int
    bytes_read: int
    bytes_written: int


def work_of(spark: SparkSession, group: str) -> Work:
    """The store is filled by a listener that lags behind: it is asked until it has seen every job end."""
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
