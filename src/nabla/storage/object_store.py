"""Object stores, as the driver reaches them: one client for every file operation at a URL.

An object is written whole or not at all, and what was written is safe. There are no folders, but names that begin alike.
Every operation is a request over the network, so that their number counts: nothing is asked twice that cannot change.
"""

from __future__ import annotations

import errno
import io
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from nabla.errors import NablaError
from nabla.storage.machine import Unreachable
from nabla.storage.store_settings import settings

_SAME = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "abfs", "gcs": "gs"}
"""Names of schemes for Hadoop's names of them."""

SMALL = 1 << 20
"""Bytes of an object that is read at once. Of a larger one the end is, where Parquet has its footer."""

_QUERY = re.compile(r"\?[^\s\"')]*")


@dataclass(frozen=True)
class Found:
    """An object: its size in bytes, when it was written, in seconds since 1970, and what the store calls this content."""

    size: int
    modified: float
    tag: str


@dataclass(frozen=True)
class Listed:
    """The names directly below a folder: of folders, and of objects."""

    folders: tuple[str, ...]
    files: tuple[str, ...]


def find(place: str) -> Found | None:
    """The object of a name, if there is one."""
    import obstore

    store, path = _at(place)
    try:
        with _errors(place):
            head = obstore.head(store, path)
    except FileNotFoundError:
        return None
    return Found(head["size"], head["last_modified"].timestamp(), head["e_tag"] or "")


def size(place: str) -> int:
    """The bytes of an object. FileNotFoundError where there is none."""
    if (content := _RECENT.get(place)) is not None:
        return len(content)
    found = find(place)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place)
    return found.size


def is_folder(place: str) -> bool:
    """Whether the names of some objects continue this one."""
    import obstore

    store, path = _at(place)
    with _errors(place):
        return any(chunk for chunk in obstore.list(store, prefix=path, chunk_size=1))


def listed(folder: str) -> Listed:
    """What is in a folder. FileNotFoundError if there is nothing."""
    import obstore

    store, path = _at(folder)
    with _errors(folder):
        found = obstore.list_with_delimiter(store, prefix=path)
    folders = tuple(os.path.basename(name.rstrip("/")) for name in found["common_prefixes"])
    files = tuple(os.path.basename(item["path"]) for item in found["objects"])
    if not folders and not files:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    return Listed(folders, files)


def names_after(folder: str, name: str) -> list[str]:
    """The names of objects in a folder that come after a name, whether there is an object of that name or not."""
    import obstore

    store, path = _at(folder)
    with _errors(folder):
        found = [item for chunk in obstore.list(store, prefix=path, offset=f"{path}/{name}") for item in chunk]
    below = (item["path"].removeprefix(f"{path}/") for item in found)
    return [name for name in below if "/" not in name]


def tree(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Every folder in a folder, as `os.walk` has them, from one listing of all objects in it."""
    import obstore

    store, path = _at(folder)
    with _errors(folder):
        found = [item["path"] for chunk in obstore.list(store, prefix=path) for item in chunk]
    contents: dict[str, tuple[set[str], list[str]]] = {"": (set(), [])}
    for whole in found:
        *above, name = whole.removeprefix(f"{path}/").split("/")
        for depth in range(len(above)):
            contents.setdefault("/".join(above[:depth]), (set(), []))[0].add(above[depth])
        contents.setdefault("/".join(above), (set(), []))[1].append(name)
    yield from _walk(folder, "", contents)


def _walk(
    folder: str, below: str, contents: dict[str, tuple[set[str], list[str]]]
) -> Iterator[tuple[str, list[str], list[str]]]:
    inner, files = contents.get(below, (set(), []))
    folders = sorted(inner)
    yield os.path.join(folder, below) if below else folder, folders, sorted(files)
    for name in folders:
        yield from _walk(folder, f"{below}/{name}" if below else name, contents)


def read(place: str) -> bytes:
    """The content of an object."""
    import obstore

    if (content := _RECENT.get(place)) is not None:
        return content
    store, path = _at(place)
    with _errors(place):
        return bytes(obstore.get(store, path).bytes())


def write(place: str, content: bytes) -> None:
    """Write an object; one that had the name is gone."""
    import obstore

    store, path = _at(place)
    with _errors(place):
        obstore.put(store, path, content)
    _RECENT.forget(place)
    _RECENT.put(place, content)


def create(place: str, content: bytes) -> None:
    """Write an object unless there is one of that name: then FileExistsError, but for one that has the same content. A request
    whose answer was lost is repeated, and finds what it has written itself."""
    import obstore

    store, path = _at(place)
    try:
        with _errors(place):
            obstore.put(store, path, content, mode="create", use_multipart=False)
    except FileExistsError as taken:
        try:
            if read(place) != content:
                raise taken
        except FileNotFoundError:  # it was deleted since
            raise taken from None
    if _COMMIT.search(place):
        _RECENT.put(place, content, never_changes=True)


def remove(place: str) -> None:
    """Delete an object. Stores do not tell whether there was one."""
    import obstore

    store, path = _at(place)
    _RECENT.forget(place)
    with _errors(place):
        obstore.delete(store, path)


def remove_all(folder: str) -> None:
    """Delete all objects in a folder."""
    import obstore

    store, path = _at(folder)
    with _errors(folder):
        for chunk in obstore.list(store, prefix=path):
            obstore.delete(store, [item["path"] for item in chunk])


def copy(source: str, target: str) -> None:
    """Give the content of an object to another one of the same store."""
    import obstore

    store, path = _at(source)
    with _errors(source):
        obstore.copy(store, path, _at(target)[1])


def open_file(place: str) -> pa.NativeFile:
    """An object to read from, here and there. A small one is read by a single request. Objects whose names say that they never
    change are remembered for a while."""
    if (content := _RECENT.get(place)) is not None:
        return pa.BufferReader(content)
    content, begin = _end_of(place)
    if begin == 0:
        _RECENT.put(place, content)
        return pa.BufferReader(content)
    return pa.PythonFile(_Ranges(place, content, begin), mode="r")


def _end_of(place: str) -> tuple[bytes, int]:
    """The end of an object, and where it begins: the whole object if it is small."""
    import obstore

    store, path = _at(place)
    with _errors(place):
        try:
            result = obstore.get(store, path, options={"range": {"suffix": SMALL}})
        except obstore.exceptions.NotSupportedError:  # of Azure
            size = obstore.head(store, path)["size"]
            begin = max(0, size - SMALL)
            return bytes(obstore.get_range(store, path, start=begin, end=size)) if size else b"", begin
        return bytes(result.bytes()), result.range[0]


class _Ranges(io.RawIOBase):
    """An object that is read in pieces. Its end is known already."""

    def __init__(self, place: str, end: bytes, begin: int) -> None:
        super().__init__()
        self._place, self._end, self._begin = place, end, begin
        self._size, self._position = begin + len(end), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        until = self._size if size < 0 else min(self._size, self._position + size)
        found = self._between(self._position, until)
        self._position += len(found)
        return found

    def _between(self, start: int, end: int) -> bytes:
        import obstore

        if start >= end:
            return b""
        if start >= self._begin:
            return self._end[start - self._begin : end - self._begin]
        store, path = _at(self._place)
        with _errors(self._place):
            return bytes(obstore.get_range(store, path, start=start, end=end))


class _Recent:
    """The content of small objects that never change, as far as there is room: the last ones that were read or written."""

    def __init__(self, room: int) -> None:
        self._room, self._used = room, 0
        self._contents: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, place: str, content: bytes, *, never_changes: bool = False) -> None:
        if len(content) > SMALL or not (never_changes or _NEVER_CHANGES.search(place)):
            return
        with self._lock:
            self._drop(place)
            self._contents[place] = content
            self._used += len(content)
            while self._used > self._room:
                self._drop(next(iter(self._contents)))

    def get(self, place: str) -> bytes | None:
        with self._lock:
            if place in self._contents:
                self._contents.move_to_end(place)
            return self._contents.get(place)

    def forget(self, place: str) -> None:
        with self._lock:
            self._drop(place)

    def _drop(self, place: str) -> None:
        self._used -= len(self._contents.pop(place, b""))


_COMMIT = re.compile(r"/_delta_log/[0-9]{20}\.json$")
_NEVER_CHANGES = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}[^/]*\.(parquet|bin)$")
"""Names with a part that nobody chooses twice."""
_RECENT = _Recent(64 << 20)


def _scheme(place: str) -> str:
    scheme = place.partition("://")[0]
    return _SAME.get(scheme, scheme)


def _at(place: str) -> tuple[Any, str]:
    """The store that a URL is in, and the path there."""
    host, _, path = place.partition("://")[2].partition("/")
    return _store(_scheme(place), host), path.rstrip("/")


@lru_cache(maxsize=32)
def _store(scheme: str, host: str) -> Any:
    try:
        from obstore.store import MemoryStore, from_url
    except ImportError:
        raise NablaError(
            "NABLA_PATH",
            f"there is no access to {scheme}://{host}: the client for object stores is not installed",
            place=f"{scheme}://{host}",
            remedy="pip install 'nabla-spark[store]'.",
        ) from None
    if scheme == "memory":
        return MemoryStore()
    try:
        return from_url(f"{scheme}://{host}/", **settings(scheme))
    except Exception as error:  # of whatever the settings in the environment say
        raise NablaError(
            "NABLA_PATH",
            f"there is no access to {scheme}://{host}: {_clean(error)}",
            place=f"{scheme}://{host}",
            remedy="Check the URL, and the credentials in the environment.",
        ) from None


@contextmanager
def _errors(place: str) -> Iterator[None]:
    """Errors of the client as those of the operating system, which are judged and worded in one place."""
    from obstore import exceptions

    try:
        yield
    except exceptions.AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), place) from error
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), place) from error
    except exceptions.NotSupportedError:
        raise
    except exceptions.BaseError as error:
        raise Unreachable(_clean(error)) from None


def _clean(error: Exception) -> str:
    """The first line of an error, without what may be a secret in a URL."""
    return _QUERY.sub("?…", str(error).splitlines()[0] if str(error) else type(error).__name__)


def missing(places: Collection[str]) -> str | None:
    """The first of some objects that is not there, by one listing of each folder."""
    there: dict[str, frozenset[str]] = {}
    for place in places:
        folder, name = os.path.split(place)
        if folder not in there:
            try:
                there[folder] = frozenset(listed(folder).files)
            except FileNotFoundError:
                there[folder] = frozenset()
        if name not in there[folder]:
            return place
    return None
