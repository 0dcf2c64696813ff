"""The file systems that URLs are in, as Arrow reaches them."""

from __future__ import annotations

import os
from functools import lru_cache

import pyarrow as pa
from pyarrow import fs

from nabla.errors import NablaError

_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}
"""Arrow's names for Hadoop's schemes of URLs."""


def file_system(place: str | os.PathLike[str]) -> tuple[fs.FileSystem, str]:
    """The file system that a URL is in, and its path there."""
    scheme, _, rest = os.fspath(place).partition("://")
    host, _, path = rest.partition("/")
    system, root = _filesystem(_SAME.get(scheme, scheme), host)
    return system, f"{root.rstrip('/')}/{path}"


@lru_cache(maxsize=32)
def _filesystem(scheme: str, host: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL, and how paths in it begin: with the bucket, in an object store."""
    try:
        system, root = fs.FileSystem.from_uri(f"{scheme}://{host}/")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise NablaError(
            "NABLA_PATH",
            f"there is no access to {scheme}://{host}: {error}",
            place=f"{scheme}://{host}",
            remedy="Use a path of this machine, or a URL that Arrow knows, such as s3://, gs://, abfs:// or hdfs://.",
        ) from None
    return system, root
