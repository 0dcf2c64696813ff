"""The Spark session: the embedded default that `nabla.open` starts, and the check of one that a user brings."""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from nabla.engine.spark.java import require_java
from nabla.errors import NablaError

GIGABYTE = 1 << 30
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")


def build_session(app_name: str, config: Mapping[str, str] | None = None) -> SparkSession:
    """A quiet Spark on all cores of this machine, or the session that this process already has.

    `config` adds to the settings of a new session and wins over them; an existing one takes only what can change later.
    """
    _refuse_connect_mode()
    _silence_query_context_logs()
    forget_ended()
    if SparkContext._active_spark_context is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        _start_context(app_name, config or {})
    builder = SparkSession.builder.appName(app_name)
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    return check_session(builder.getOrCreate())


def has_ended(spark: SparkSession) -> bool:
    """Whether a session can do nothing any more: it was stopped, or its JVM has died."""
    context = spark.sparkContext
    return context._jsc is None or context is not SparkContext._active_spark_context or _has_died()


def forget_ended() -> None:
    """Let PySpark forget a JVM that has died: it would try to reach it for ever, and start no other."""
    if _has_died():
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None


def _has_died() -> bool:
    """Whether the JVM of this process has ended; not known of one that somebody else has started."""
    process = getattr(SparkContext._gateway, "proc", None)
    return process is not None and process.poll() is not None


def session_ended() -> NablaError:
    """The error for a session of a user that has ended."""
    return NablaError(
        "NABLA_SPARK_ENDED",
        "the Spark session that the lake was opened with has ended",
        place="spark=",
        remedy="Open the lake again, with a new session or with none.",
    )


def check_session(spark: SparkSession) -> SparkSession:
    """The session itself if Nabla can work with it."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise NablaError(
            "NABLA_SPARK_CONNECT",
            "this is a Spark Connect session, and Nabla reads query plans from a driver in its own process",
            place="spark=",
            remedy='Pass a classic session (SparkSession.builder.config("spark.api.mode", "classic")), or none.',
        )
    if not isinstance(spark, SparkSession):
        raise NablaError(
            "NABLA_NO_SESSION",
            f"spark must be a SparkSession, not {type(spark).__name__}",
            place="spark=",
            remedy="Pass a SparkSession, or none to let Nabla start one.",
        )
    return spark


def driver_memory(available: int | None = None) -> str:
    """Half of the machine's memory between 1 and 8 GB: Spark's default of 1 GB is too little for data work."""
    half = (_machine_memory() if available is None else available) // 2
    return f"{min(max(half, GIGABYTE), 8 * GIGABYTE) >> 20}m"


def settings(app_name: str, scratch: Path) -> dict[str, str]:
    """The settings of the embedded session. All of them have to be known before the JVM starts."""
    return {
        "spark.app.name": app_name,
        "spark.master": "local[*]",
        "spark.api.mode": "classic",
        "spark.driver.memory": driver_memory(),
        "spark.driver.host": "127.0.0.1",  # nothing outside this machine connects, and host names may not resolve
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the old default has no statistics
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        # Every task that groups or sorts allocates a page; the default of up to 64 MB costs more than most refreshes.
        "spark.buffer.pageSize": "1000k",
        # Spark forgets all but the last 100 pieces of code that it compiled. Twenty views have more, and each would be
        # compiled anew whenever it is recomputed.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Listing more paths than this costs a Spark job; the Delta log already knows the files.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    }


def _launch(conf: SparkConf, errors: BinaryIO) -> JavaGateway:
    launch: Callable[..., JavaGateway] = launch_gateway  # PySpark does not say what it takes
    return launch(conf, popen_kwargs={"stderr": errors})


def _start_context(app_name: str, config: Mapping[str, str]) -> None:
    """Start the JVM with its error stream in a file, where Java's and Spark's start-up banners stay unread."""
    require_java()
    scratch = Path(tempfile.mkdtemp(prefix="nabla-spark-"))
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    conf = SparkConf(loadDefaults=False).setAll(list({**settings(app_name, scratch), **config}.items()))
    log = scratch / "spark.log"
    with log.open("wb") as errors:
        try:
            gateway = _launch(conf, errors) if SparkContext._gateway is None else None
            context = SparkContext(conf=conf, gateway=gateway)
        except PySparkRuntimeError as error:
            raise NablaError(
                "NABLA_SPARK_START",
                f"Spark did not start: {_last_line(log) or error}",
                place=f"Java {require_java()}",
                remedy="Check the Java installation, the memory that is free and the settings in `configuration`.",
            ) from error
    if conf.get("spark.master", "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        # Python functions run in this Python: the first `python3` on the path may be another one, without their packages.
        context.pythonExec = sys.executable


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def _refuse_connect_mode() -> None:
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        if variable in os.environ:
            raise NablaError(
                "NABLA_SPARK_CONNECT",
                "the environment asks for Spark Connect, and Nabla reads query plans from a driver in its own process",
                place=variable,
                remedy=f"Unset {variable}.",
            )


def _silence_query_context_logs() -> None:
    """Keep PySpark from logging every analysis error as a page of JSON: Nabla's own error says it once."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _machine_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or its container's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(limit).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total
