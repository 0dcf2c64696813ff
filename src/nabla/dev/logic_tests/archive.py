"""The test files: an artifact of Maven, fetched once by Spark's own resolver. They are public domain, and no part of Nabla."""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

COORDINATES = "net.hydromatic:sql-logic-test:0.3"
_TEST = re.compile(r"test/(?P<name>.+)\.test")


def default_cache() -> Path:
    """By the rules of XDG."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".cache") / "nabla"


def fetch(spark: SparkSession, cache: Path) -> Archive:
    """The archive in a cache. Where it is not there, it comes from the repositories that this Spark gets packages from."""
    path = cache / f"{COORDINATES.replace(':', '-')}.jar"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        jvm: Any = spark.sparkContext._jvm
        maven = jvm.java.lang.Class.forName("org.apache.spark.util.MavenUtils$").getField("MODULE$").get(None)
        none, nothing = jvm.scala.Option.empty(), jvm.scala.jdk.javaapi.CollectionConverters
        output = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
        more = jvm.scala.Option.apply(spark.conf.get("spark.jars.repositories", None))
        settings = maven.buildIvySettings(more, jvm.scala.Option.apply(str(cache / "ivy")), True, output)
        exclusions = nothing.asScala(jvm.java.util.ArrayList()).toSeq()
        (found,) = nothing.asJava(
            maven.resolveMavenCoordinates(COORDINATES, settings, none, False, exclusions, False, output)
        )
        partial = path.with_suffix(".part")
        shutil.copyfile(found, partial)
        partial.rename(path)
        shutil.rmtree(cache / "ivy", ignore_errors=True)
    return Archive(path)


@dataclass(frozen=True)
class Archive:
    """A jar with test files."""

    path: Path

    def names(self, pattern: str) -> list[str]:
        """The tests whose names match a regular expression from their beginning, those with content only."""
        with zipfile.ZipFile(self.path) as jar:
            found = [(_TEST.fullmatch(info.filename), info.file_size) for info in jar.infolist()]
        names = [match["name"] for match, size in found if match and size]
        return sorted(name for name in names if re.match(pattern, name))

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a test, without their ends: some tests have a hundred megabytes."""
        with zipfile.ZipFile(self.path) as jar, jar.open(f"test/{name}.test") as file:
            for line in file:
                yield line.decode("utf-8").rstrip("\r\n")
