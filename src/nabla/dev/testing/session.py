"""The Spark of tests and fuzzers."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from nabla.engine.spark.session import LOG_SETTINGS, build_session

_JAVA_OPTIONS = (
    f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=512m",
    "-XX:+UseSerialGC",
)


def quick_session(app_name: str, config: Mapping[str, str] | None = None) -> SparkSession:
    """A Spark for many small queries that run a few times: little compiling, and room for all that is compiled."""
    settings = {
        "spark.driver.extraJavaOptions": " ".join(_JAVA_OPTIONS),
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.cache.maxEntries": "20000",
    }
    return build_session(app_name, {**settings, **(config or {})})
