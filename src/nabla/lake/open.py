"""Opening the lake in a folder, or making one there."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from nabla.engine.spark.session import check_session
from nabla.errors import NablaError, wrong_argument
from nabla.lake.context import LakeContext
from nabla.lake.environments.environments import open_environment
from nabla.lake.facade import Lake
from nabla.lake.monitor.activate import activate
from nabla.lake.trust import Trust
from nabla.storage import locations
from nabla.storage.lakelog import LakeLog


def open_lake(
    path: str | os.PathLike[str],
    spark: SparkSession | None = None,
    trust: bool | None = None,
    deletion_vectors: bool | None = None,
    environment: str | None = None,
) -> Lake:
    """Open the lake in a folder; a missing or empty folder becomes a new lake.

    `spark` brings your own (classic) session; without it Nabla uses the active one or starts a local Spark. Python functions
    and other code of views run only in a lake that you made or trust (`nabla trust`); `trust` decides for this one. A new lake
    with `deletion_vectors=False` has tables that readers of Delta without this feature can read; it stays as it was made. With
    `environment`, the lake is seen through an environment that `nabla run --env` has made.
    """
    if not isinstance(path, str | os.PathLike):
        raise wrong_argument("path", path, "the path or URL of a folder")
    if trust is not None and not isinstance(trust, bool):
        raise wrong_argument("trust", trust, "True, False or None")
    if deletion_vectors is not None and not isinstance(deletion_vectors, bool):
        raise wrong_argument("deletion_vectors", deletion_vectors, "True, False or None")
    if spark is not None:
        check_session(spark)
    folder = locations.named(path)
    if environment is not None:
        if not isinstance(environment, str):
            raise wrong_argument("environment", environment, "the name of an environment")
        inside = open_environment(folder, environment)
        activate()
        return Lake(LakeContext(inside, spark, Trust(inside, trust)))
    made = not LakeLog.exists(folder)
    log = LakeLog.create(folder, marks_rows=deletion_vectors is not False) if made else LakeLog.open(folder)
    if not made and deletion_vectors not in (None, log.marks_rows):
        raise NablaError(
            "NABLA_ARGUMENT",
            f"the lake was made with deletion_vectors={log.marks_rows}",
            place="deletion_vectors=",
            remedy="Leave it out, and decide for single tables in create_table.",
        )
    activate()
    return Lake(LakeContext(log, spark, Trust(log, trust, made)))
