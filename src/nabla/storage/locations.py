"""Files and folders wherever a lake may be: below a path of this machine, or at a URL that Spark and delta-rs both reach.

Paths below either are put together with `os.path.join`. At a URL a folder is but the beginning of names: it is there when
something is in it, need not be made, and to move a file is to copy it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "gcs": "gs"}
"""What Arrow calls the schemes of Hadoop."""

Location = str | os.PathLike[str]


def named(place: Location) -> str:
    """A folder by the name that it has everywhere: an absolute path, or the URL."""
    text = os.fspath(place)
    return text.rstrip("/") if is_url(text) else os.path.abspath(text)


def is_url(place: Location) -> bool:
    return _URL.match(os.fspath(place)) is not None


def is_absolute(place: str) -> bool:
    return is_url(place) or os.path.isabs(place)


def exists(place: Location) -> bool:
    return _info(place).type != fs.FileType.NotFound if is_url(place) else os.path.exists(place)


def is_file(place: Location) -> bool:
    return _info(place).type == fs.FileType.File if is_url(place) else os.path.isfile(place)


def is_folder(place: Location) -> bool:
    return _info(place).type == fs.FileType.Directory if is_url(place) else os.path.isdir(place)


def is_link(place: Location) -> bool:
    return not is_url(place) and os.path.islink(place)


def size(place: Location) -> int:
    return int(_info(place).size or 0) if is_url(place) else os.path.getsize(place)


def modified(place: Location) -> float:
    """When, in seconds since 1970. A folder at a URL has no such time. FileNotFoundError where nothing is."""
    if not is_url(place):
        return os.lstat(place).st_mtime
    info = _info(place)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(os.fspath(place))
    return info.mtime.timestamp() if info.mtime is not None else 0.0


def names(folder: Location) -> list[str]:
    """What is in a folder. FileNotFoundError, or NotADirectoryError, where there is none."""
    if not is_url(folder):
        return os.listdir(folder)
    system, path = _at(folder)
    return [info.base_name for info in system.get_file_info(fs.FileSelector(path))]


def tree(folder: Location) -> Iterator[tuple[str, list[str], list[str]]]:
    """Every folder in a folder, with the names of folders and files in it, as `os.walk` has them."""
    if not is_url(folder):
        yield from os.walk(folder)
        return
    system, path = _at(folder)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    folders = [info.base_name for info in found if info.type == fs.FileType.Directory]
    yield os.fspath(folder), folders, [info.base_name for info in found if info.type == fs.FileType.File]
    for name in folders:
        yield from tree(os.path.join(folder, name))


def make_folder(place: Location) -> None:
    if not is_url(place):
        os.makedirs(place, exist_ok=True)
    elif _is_of_this_machine(place):
        system, path = _at(place)
        system.create_dir(path)


def remove(place: Location) -> None:
    """Delete a file. FileNotFoundError where the file system notices that there is none."""
    if is_url(place):
        system, path = _at(place)
        system.delete_file(path)
    else:
        os.remove(place)


def remove_folder(place: Location) -> None:
    """Delete a folder with all that is in it, as far as that can be done: what is left is a vacuum's."""
    if not is_url(place):
        shutil.rmtree(place, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        system, path = _at(place)
        system.delete_dir(path)


def move(source: Location, target: Location) -> None:
    """Both are in one lake."""
    if is_url(source):
        system, path = _at(source)
        system.move(path, _at(target)[1])
    else:
        os.rename(source, target)


def open_text(place: Location) -> TextIO:
    """A text to read, line by line."""
    if not is_url(place):
        return open(place, encoding="utf-8")
    system, path = _at(place)
    return io.TextIOWrapper(system.open_input_stream(path), encoding="utf-8")


def parquet_file(place: Location) -> pq.ParquetFile:
    return pq.ParquetFile(*_parquet(place))


def parquet_footer(place: Location) -> pq.FileMetaData:
    if not is_url(place):
        return pq.read_metadata(place)
    system, path = _at(place)
    return pq.read_metadata(path, filesystem=system)


def read_parquet(place: Location, columns: Sequence[str] | None = None) -> pa.Table:
    wanted = None if columns is None else list(columns)
    if not is_url(place):
        return pq.read_table(place, columns=wanted, partitioning=None)
    system, path = _at(place)
    return pq.read_table(path, columns=wanted, partitioning=None, filesystem=system)


def write_parquet(table: pa.Table, place: Location, **options: Any) -> None:
    if is_url(place):
        system, path = _at(place)
        pq.write_table(table, path, filesystem=system, **options)
    else:
        pq.write_table(table, place, **options)


def parquet_files(folder: Location) -> list[str]:
    """The paths of the Parquet files that Spark wrote into a folder, in order."""
    listed = names(folder) if is_folder(folder) else []
    return [os.path.join(folder, n) for n in sorted(listed) if n.endswith(".parquet") and not n.startswith(("_", "."))]


def _parquet(place: Location) -> tuple[Any, ...]:
    if not is_url(place):
        return (place,)
    system, path = _at(place)
    return (system.open_input_file(path),)


def _info(place: Location) -> fs.FileInfo:
    system, path = _at(place)
    return system.get_file_info(path)


def _is_of_this_machine(place: Location) -> bool:
    return os.fspath(place).startswith("file://")


def _at(place: Location) -> tuple[fs.FileSystem, str]:
    scheme, _, rest = os.fspath(place).partition("://")
    host, _, path = rest.partition("/")
    system, root = _filesystem(_SAME.get(scheme, scheme), host)
    return system, f"{root.rstrip('/')}/{path}"


@lru_cache(maxsize=32)
def _filesystem(scheme: str, host: str) -> tuple[fs.FileSystem, str]:
    """The file system of a URL, and how paths in it begin: with the bucket, in an object store."""
    system, root = fs.FileSystem.from_uri(f"{scheme}://{host}/")
    return system, root
