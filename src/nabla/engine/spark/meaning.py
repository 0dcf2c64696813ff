"""The settings of a Spark session that decide what a query means. A view keeps those under which it was made: whoever refreshes
or verifies it, in whatever session, runs it under them."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

_BETWEEN = "\x1f"
"""Stands between two settings in a text that has them all; no setting contains it."""

Settings = tuple[tuple[str, str], ...]
"""Names and values, in order."""

ALWAYS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")
"""These are kept even where nobody has set them: their defaults depend on the machine or on the version of Spark."""
_HOW = tuple(
    f"spark.sql.{name}"
    for name in (
        # Spark's own views leave out these, too.
        *("optimizer.", "codegen.", "execution.", "shuffle.", "adaptive.", "hive.convert", "maxNestedViewDepth"),
        *("files.", "parquet.", "orc.", "sources.", "streaming.", "catalog", "warehouse.", "defaultCatalog"),
        *("autoBroadcast", "broadcast", "join.", "cbo.", "statistics.", "inMemoryColumnarStorage.", "cache."),
        *("ui.", "debug.", "repl.", "redaction.", "extensions", "pyspark.", "artifact.", "event.", "maxPlanString"),
    )
)
"""Settings about how a query is run or where its data are, which do not change its result."""


def meaning(session: SparkSession) -> Settings:
    """The settings of a session that a query's result may depend on: all that were set, but for those known to be harmless."""
    conf = session.conf
    given = dict(known_settings(_all_set(session)))
    always = {key: str(conf.get(key)) for key in ALWAYS}
    return known_settings({key: value for key, value in given.items() if conf.isModifiable(key)} | always)


def _all_set(session: SparkSession) -> dict[str, str]:
    """All settings of a session, by one call of the JVM; `conf.getAll` of PySpark makes two for each setting."""
    text: str = session._jsparkSession.conf().getAll().mkString(_BETWEEN)
    pairs = (setting.partition(" -> ") for setting in text.split(_BETWEEN))
    return {key: value for key, _, value in pairs}


def known_settings(settings: Mapping[str, str]) -> Settings:
    """Those among settings that may change a query's result. Nothing else is taken from the definition of a view, which in a
    lake of somebody else may name classes to be loaded."""
    return tuple(sorted((k, v) for k, v in settings.items() if k.startswith("spark.sql.") and not k.startswith(_HOW)))


def zone_of(settings: Settings) -> str:
    """The time zone among the settings of a session."""
    return dict(settings)[ALWAYS[0]]


def is_ansi(settings: Settings) -> bool:
    """Whether overflows are errors under these settings, as they are unless somebody has turned that off."""
    return dict(settings).get(ALWAYS[1], "true").lower() == "true"
