"""Files and folders wherever a lake may be: below a path of this machine, or at the URL of an object store.

Paths below either are put together with `os.path.join`. At a URL a folder is but the beginning of names: it is there when
something is in it, need not be made, and to move a file is to copy it (`object_store`). A `file://` URL is a path.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from nabla.errors import NablaError
from nabla.storage import object_store, parquet
from nabla.storage.machine import current, reading, writing

_URL = re.compile(r"(?!file://)[A-Za-z][A-Za-z0-9+.-]+://")
_FILE = "file://"
Location = str | os.PathLike[str]

SCRATCH = "_commit_"
"""The beginning of the names of files that `put_text` is about to rename. A killed process leaves some behind."""


def named(place: Location) -> str:
    """A folder by the name that it has everywhere: an absolute path, or the URL. NABLA_PATH for a name that no folder has."""
    text = os.fspath(place)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise NablaError("NABLA_PATH", f"{text!r} is no folder", place="path", remedy="Name a folder, or a URL.")
    return text.rstrip("/") if is_url(text) else os.path.abspath(text.removeprefix(_FILE))


def is_url(place: Location) -> bool:
    text = os.fspath(place)
    return "://" in text and _URL.match(text) is not None


def is_inside(place: str, folder: str) -> bool:
    """Whether a place is a folder or in it, by its real path. Both have the names that `named` gives."""
    if is_url(place) or is_url(folder):
        return f"{place}/".startswith(f"{folder}/")
    inner, outer = os.path.realpath(place), os.path.realpath(folder)
    return os.path.commonpath([inner, outer]) == outer


def is_absolute(place: str) -> bool:
    return is_url(place) or place.startswith(_FILE) or os.path.isabs(place)


def exists(place: Location) -> bool:
    return is_file(place) or is_folder(place) if is_url(place) else _mode(place) != 0


def is_file(place: Location) -> bool:
    if is_url(place):
        with reading(place):
            return object_store.find(os.fspath(place)) is not None
    return stat.S_ISREG(_mode(place))


def is_folder(place: Location) -> bool:
    if is_url(place):
        with reading(place):
            return object_store.is_folder(os.fspath(place))
    return stat.S_ISDIR(_mode(place))


def first_missing(files: Iterable[str]) -> str | None:
    """The first of some files that is not there."""
    places = list(files)
    if urls := [place for place in places if is_url(place)]:
        with reading(urls[0]):
            if away := object_store.missing(urls):
                return away
    return next((place for place in places if not is_url(place) and _mode(place) == 0), None)


def is_link(place: Location) -> bool:
    path = _local_path(place)
    return path is not None and os.path.islink(path)


def stays_below(path: str) -> bool:
    """Whether a path that is relative to a folder names something in that folder, links apart."""
    return not is_absolute(path) and not {"", ".", ".."} & set(path.split("/"))


def is_really_in(place: Location, folder: Location) -> bool:
    """Whether a place is in a folder once all links are followed. Object stores have no links."""
    real, home = _real(place), _real(folder)
    return real == home or real.startswith(home.rstrip("/") + "/")


def _real(place: Location) -> str:
    path = _local_path(place)
    return os.fspath(place) if path is None else os.path.realpath(path)


def _local_path(place: Location) -> str | None:
    """The path of a place on this machine; None for a place in an object store."""
    text = os.fspath(place)
    return None if is_url(text) else text.removeprefix(_FILE)


def size(place: Location) -> int:
    with reading(place):
        return object_store.size(os.fspath(place)) if is_url(place) else current().stat(os.fspath(place)).st_size


def modified(place: Location) -> float:
    """The time of the last change in seconds since 1970; 0 for a folder at a URL. FileNotFoundError if there is nothing."""
    with reading(place):
        if not is_url(place):
            return current().modified(os.fspath(place))
        found = object_store.find(os.fspath(place))
        if found is not None:
            return found.modified
        if object_store.is_folder(os.fspath(place)):
            return 0.0
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(place))


def names(folder: Location) -> list[str]:
    """The names in a folder. FileNotFoundError or NotADirectoryError if there is none."""
    with reading(folder):
        if not is_url(folder):
            return current().names(os.fspath(folder))
        listed = object_store.listed(os.fspath(folder))
        return [*listed.folders, *listed.files]


def names_after(folder: Location, name: str) -> list[str]:
    """The names in a folder that come after a name, whether that is there or not. At a URL they are not all listed."""
    if not is_url(folder):
        return [other for other in names(folder) if other > name]
    with reading(folder):
        return object_store.names_after(os.fspath(folder), name)


def tree(folder: Location) -> Iterator[tuple[str, list[str], list[str]]]:
    """Every folder in a folder, with the names of folders and files in it, as `os.walk` has them."""
    with reading(folder):
        yield from object_store.tree(os.fspath(folder)) if is_url(folder) else current().tree(os.fspath(folder))


def make_folder(place: Location) -> None:
    """Make a folder with those above it. A new name is synced at once: nobody would think of it later."""
    if not is_url(place):
        _make_folder(os.fspath(place))


def remove(place: Location) -> None:
    """Delete a file. FileNotFoundError where there is none, which object stores do not notice."""
    with writing(place):
        if is_url(place):
            object_store.remove(os.fspath(place))
        else:
            current().remove(os.fspath(place))


def remove_folder(place: Location) -> None:
    """Delete a folder with all that is in it, as far as that can be done: what is left is a vacuum's."""
    if not is_url(place):
        current().remove_folder(os.fspath(place))
        return
    with contextlib.suppress(OSError):
        object_store.remove_all(os.fspath(place))


def move(source: Location, target: Location) -> None:
    """Move a file within a lake."""
    with writing(target):
        if is_url(source):
            object_store.copy(os.fspath(source), os.fspath(target))
            object_store.remove(os.fspath(source))
        else:
            current().move(os.fspath(source), os.fspath(target))


def link(source: Location, target: Location) -> None:
    """Give a file of this machine a second name."""
    with writing(target):
        current().link(os.fspath(source), os.fspath(target))


def open_text(place: Location) -> TextIO:
    """A text to read, line by line."""
    if not is_url(place):
        with reading(place):
            return current().read(os.fspath(place), lambda path: open(path, encoding="utf-8"))
    return io.StringIO(read_text(place))


def read_text(place: Location) -> str:
    """A whole text."""
    with reading(place):
        return read_bytes(place).decode("utf-8")


def read_bytes(place: Location) -> bytes:
    """The content of a small file."""
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), lambda path: Path(path).read_bytes())
        return object_store.read(os.fspath(place))


def read_range(place: Location, start: int, size: int) -> bytes:
    """A part of the content of a file; less of it where the file ends before."""
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), lambda path: _read_range(path, start, size))
        with object_store.open_file(os.fspath(place)) as file:
            file.seek(start)
            return bytes(file.read(size))


def write_text(place: Location, text: str) -> None:
    """Write a small file. It is not synced, and a reader may see a part of it."""
    write_bytes(place, text.encode("utf-8"))


def write_bytes(place: Location, content: bytes) -> None:
    """Write a file. It is not synced, and a reader may see a part of it."""
    if is_url(place):
        with writing(place):
            object_store.write(os.fspath(place), content)
    else:
        write(place, lambda path: _write_bytes(path, content))


def put_text(place: Location, text: str, *, overwrite: bool = False) -> None:
    """Write a small file that is there, whole and synced, or not at all.

    FileExistsError where there is one already, unless it may be overwritten.
    """
    target = os.fspath(place)
    if is_url(place):
        with writing(place):
            (object_store.write if overwrite else object_store.create)(target, text.encode("utf-8"))
        return
    folder, name = os.path.split(target)
    scratch = os.path.join(folder, f"{SCRATCH}{name}.{uuid.uuid4().hex}.tmp")
    machine = current()
    with writing(place):
        try:
            machine.write(scratch, lambda path: _write_bytes(path, text.encode("utf-8")))
            machine.sync(scratch)
            if overwrite:
                machine.move(scratch, target)
            else:
                machine.link(scratch, target)
        except FileNotFoundError as error:
            if is_folder(folder):  # else the caller knows what to do
                raise OSError(errno.EIO, "it was deleted before it got its name") from error
            raise
        finally:
            with contextlib.suppress(OSError):
                machine.remove(scratch)
        machine.sync_folder(folder)


def sync(places: Iterable[Location]) -> None:
    """Wait until files, and the folders that they are in, are on the disk. A file at a URL is, once it is written."""
    machine = current()
    paths = {os.fspath(place) for place in places if not is_url(place)}
    if not machine.syncs or not paths:
        return
    machine.do_each(_sync, sorted(paths))
    for folder in sorted({os.path.dirname(path) for path in paths}):
        sync_folder(folder)


def _sync(path: str) -> None:
    with writing(path):
        current().sync(path)


def sync_folder(place: Location) -> None:
    """Wait until the names in a folder are on the disk."""
    if not is_url(place):
        with writing(place):
            current().sync_folder(os.fspath(place))


def opened(url: str) -> pa.NativeFile:
    """An object at a URL, to read from here and there."""
    return object_store.open_file(url)


@contextlib.contextmanager
def parquet_file(place: Location) -> Iterator[pq.ParquetFile]:
    """A Parquet file to read from, within a `with` block."""
    with reading(place):
        if is_url(place):
            file = pq.ParquetFile(object_store.open_file(os.fspath(place)))
        else:
            file = current().read(os.fspath(place), parquet.open_file)
        with file:
            yield file


def parquet_footer(place: Location) -> pq.FileMetaData:
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), pq.read_metadata)
        return pq.read_metadata(object_store.open_file(os.fspath(place)))


def read_parquet(place: Location, columns: Sequence[str] | None = None) -> pa.Table:
    wanted = None if columns is None else list(columns)
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), lambda path: parquet.read_all(path, wanted))
        return pq.read_table(object_store.open_file(os.fspath(place)), columns=wanted, partitioning=None)


def write_parquet(table: pa.Table, place: Location, **options: Any) -> pq.FileMetaData:
    """Write a table, and give the footer of the file, which need not be read again."""
    if is_url(place):
        content = pa.BufferOutputStream()
        footer = parquet.write_file(table, content, **options)
        write_bytes(place, content.getvalue().to_pybytes())
        return footer
    footers: list[pq.FileMetaData] = []
    write(place, lambda path: footers.append(parquet.write_file(table, path, **options)))
    return footers[0]


def write(place: Location, fill: Callable[[str], None]) -> None:
    """Let a function write a file of this machine."""
    with writing(place):
        current().write(os.fspath(place), fill)


def parquet_files(folder: Location) -> list[str]:
    """The paths of the Parquet files that Spark wrote into a folder, in order. NABLA_VACUUMED where the folder is gone: to
    take that for a folder without rows would lose them."""
    try:
        listed = names(folder)
    except FileNotFoundError as error:
        raise NablaError(
            "NABLA_VACUUMED",
            "rows that were written, but not committed yet, are not there any more",
            place=os.fspath(folder),
            remedy="Repeat the operation.",
        ) from error
    return [os.path.join(folder, n) for n in sorted(listed) if n.endswith(".parquet") and not n.startswith(("_", "."))]


def _make_folder(path: str) -> None:
    if is_folder(path):
        return
    parent = os.path.dirname(path)
    if parent:
        _make_folder(parent)
    with writing(path):
        with contextlib.suppress(FileExistsError):  # somebody else makes it at the same time
            current().make_folder(path)
        current().sync_folder(parent or os.curdir)
    if not is_folder(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def _mode(place: Location) -> int:
    """The mode of the file or folder at a path, which tells its kind; zero if there is none."""
    try:
        return current().stat(os.fspath(place)).st_mode
    except ValueError:  # a name that no file can have
        return 0
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
            return 0
        with reading(place):
            raise


def _read_range(path: str, start: int, size: int) -> bytes:
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        return file.read(size)


def _write_bytes(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
