"""delta-spark beside Nabla: the same rows go and come by DELETE and MERGE, on tables with deletion vectors.

It runs in a process and a Spark of its own, since its rules would take part in every query of Nabla's.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from nabla.dev.bench.tpch import KEYS as PRIMARY
from nabla.engine.spark.session import build_session

_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.properties.defaults.enableDeletionVectors": "true",
}


@dataclass(frozen=True)
class Way:
    """A change: by table the condition of the rows that go, and the folder with the rows that come."""

    what: str
    gone: Mapping[str, str]
    new: str


def packages(version: str = "4.4.0") -> str:
    """The coordinates of delta-spark for this Spark."""
    spark = ".".join(pyspark.__version__.split(".")[:2])
    return f"io.delta:delta-spark_{spark}_2.13:{version}"


def measure(
    ways: Sequence[Way], keys: Mapping[str, str], data: Path, folder: Path, jars: str, say: Callable[[str], None]
) -> Iterator[tuple[str, float]]:
    """The seconds of each change. Nothing where delta-spark cannot be started."""
    task = json.dumps(
        {
            "ways": [asdict(way) for way in ways],
            "tables": list(keys),
            "data": str(data),
            "folder": str(folder),
            "jars": jars,
        }
    )
    done = subprocess.run(
        [sys.executable, "-m", "nabla.dev.bench.delta_peer"], input=task, capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended"])[-1]
        say(f"delta-spark does not take part: {last}")
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            say(f"delta-spark: {found['what']} in {found['seconds']:.2f} s")
            yield found["what"], found["seconds"]


def _session(jars: str) -> SparkSession:
    where = {"spark.jars.packages": packages()} if jars == "packages" else {"spark.jars": jars}
    return build_session("delta", {**_SETTINGS, **where})


def _main(task: Mapping[str, Any]) -> None:
    spark, folder = _session(task["jars"]), Path(task["folder"])
    for table in task["tables"]:
        place = folder / "delta" / table
        spark.read.parquet(str(Path(task["data"]) / f"{table}.parquet")).write.format("delta").save(str(place))
    ways = [Way(**way) for way in task["ways"]]
    for number, way in enumerate([ways[0], *ways]):  # code is compiled during the first one
        begun = time.perf_counter()
        for table in task["tables"]:
            _change(spark, table, way.gone[table], folder / "delta" / table, folder / way.new / f"{table}.parquet")
        if number:
            print(json.dumps({"what": way.what, "seconds": time.perf_counter() - begun}), flush=True)


def _change(spark: SparkSession, table: str, gone: str, place: Path, new: Path) -> None:
    """By key, as whoever does not want a row twice would write it."""
    same = " AND ".join(f"t.{column} = s.{column}" for column in PRIMARY[table])
    spark.sql(f"DELETE FROM delta.`{place}` WHERE {gone}")
    spark.sql(f"MERGE INTO delta.`{place}` t USING parquet.`{new}` s ON {same} WHEN NOT MATCHED THEN INSERT *")


if __name__ == "__main__":
    _main(json.load(sys.stdin))
