"""Files and folders wherever a lake may be: below a path of this machine, or at a URL that Spark and delta-rs both reach.

Paths below either are put together with `os.path.join`. At a URL a folder is but the beginning of names: it is there when
something is in it, need not be made, and to move a file is to copy it.
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
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from nabla.errors import MachineFault, NablaError
from nabla.storage import parquet
from nabla.storage.machine import current, reading, writing
from nabla.storage.url_systems import file_system

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
Location = str | os.PathLike[str]

SCRATCH = "_commit_"
"""The beginning of the names of files that `put_text` is about to rename. A killed process leaves some behind."""


def named(place: Location) -> str:
    """A folder by the name that it has everywhere: an absolute path, or the URL. NABLA_PATH for a name that no folder has."""
    text = os.fspath(place)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise NablaError("NABLA_PATH", f"{text!r} is no folder", place="path", remedy="Name a folder, or a URL.")
    return text.rstrip("/") if is_url(text) else os.path.abspath(text)


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
    return is_url(place) or os.path.isabs(place)


def exists(place: Location) -> bool:
    return _info(place).type != fs.FileType.NotFound if is_url(place) else _mode(place) != 0


def is_file(place: Location) -> bool:
    return _info(place).type == fs.FileType.File if is_url(place) else stat.S_ISREG(_mode(place))


def is_folder(place: Location) -> bool:
    return _info(place).type == fs.FileType.Directory if is_url(place) else stat.S_ISDIR(_mode(place))


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
    if is_url(text) and not _is_of_this_machine(text):
        return None
    return text.removeprefix("file://")


def size(place: Location) -> int:
    if is_url(place):
        return int(_info(place).size or 0)
    with reading(place):
        return current().stat(os.fspath(place)).st_size


def refuse_empty_files(places: Iterable[Location]) -> None:
    """NABLA_READ_FAILED for a file of this machine without content, as a power cut leaves it: Spark would take it for a file
    without rows. A file that is missing is left to Spark to report."""
    for place in places:
        if is_url(place):
            continue
        with contextlib.suppress(FileNotFoundError), reading(place):
            status = current().stat(os.fspath(place))
            if status.st_size == 0 and stat.S_ISREG(status.st_mode):
                raise MachineFault(
                    "NABLA_READ_FAILED",
                    "the file is damaged: it is empty",
                    place=os.fspath(place),
                    remedy="`nabla fsck` finds all damaged files. Restore this one from a copy.",
                )


def modified(place: Location) -> float:
    """The time of the last change in seconds since 1970; 0 for a folder at a URL. FileNotFoundError if there is nothing."""
    if not is_url(place):
        with reading(place):
            return current().modified(os.fspath(place))
    info = _info(place)
    if info.type == fs.FileType.NotFound:
        raise FileNotFoundError(os.fspath(place))
    return info.mtime.timestamp() if info.mtime is not None else 0.0


def names(folder: Location) -> list[str]:
    """The names in a folder. FileNotFoundError or NotADirectoryError if there is none."""
    if not is_url(folder):
        with reading(folder):
            return current().names(os.fspath(folder))
    system, path = file_system(folder)
    return [info.base_name for info in system.get_file_info(fs.FileSelector(path))]


def tree(folder: Location) -> Iterator[tuple[str, list[str], list[str]]]:
    """Every folder in a folder, with the names of folders and files in it, as `os.walk` has them."""
    if not is_url(folder):
        with reading(folder):
            yield from current().tree(os.fspath(folder))
        return
    system, path = file_system(folder)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    folders = [info.base_name for info in found if info.type == fs.FileType.Directory]
    yield os.fspath(folder), folders, [info.base_name for info in found if info.type == fs.FileType.File]
    for name in folders:
        yield from tree(os.path.join(folder, name))


def make_folder(place: Location) -> None:
    """Make a folder with those above it. A new name is synced at once: nobody would think of it later."""
    if not is_url(place):
        _make_folder(os.fspath(place))
    elif _is_of_this_machine(place):
        system, path = file_system(place)
        system.create_dir(path)


def remove(place: Location) -> None:
    """Delete a file. FileNotFoundError where the file system notices that there is none."""
    if is_url(place):
        system, path = file_system(place)
        system.delete_file(path)
    else:
        with writing(place):
            current().remove(os.fspath(place))


def remove_folder(place: Location) -> None:
    """Delete a folder with all that is in it, as far as that can be done: what is left is a vacuum's."""
    if not is_url(place):
        current().remove_folder(os.fspath(place))
        return
    with contextlib.suppress(OSError):
        system, path = file_system(place)
        system.delete_dir(path)


def move(source: Location, target: Location) -> None:
    """Move a file within a lake."""
    if is_url(source):
        system, path = file_system(source)
        system.move(path, file_system(target)[1])
    else:
        with writing(target):
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
    system, path = file_system(place)
    return io.TextIOWrapper(system.open_input_stream(path), encoding="utf-8")


def read_text(place: Location) -> str:
    """A whole text."""
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), _read_text)
        with open_text(place) as file:
            return file.read()


def write_text(place: Location, text: str) -> None:
    """Write a small file. It is not synced, and a reader may see a part of it."""
    if is_url(place):
        system, path = file_system(place)
        with system.open_output_stream(path) as stream:
            stream.write(text.encode())
    else:
        write(place, lambda path: _write_text(path, text))


def put_text(place: Location, text: str, *, overwrite: bool = False) -> None:
    """Write a small file of this machine that is there, whole and synced, or not at all.

    FileExistsError where there is one already, unless it may be overwritten.
    """
    target = os.fspath(place)
    folder, name = os.path.split(target)
    scratch = os.path.join(folder, f"{SCRATCH}{name}.{uuid.uuid4().hex}.tmp")
    machine = current()
    with writing(place):
        try:
            machine.write(scratch, lambda path: _write_text(path, text))
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


@contextlib.contextmanager
def parquet_file(place: Location) -> Iterator[pq.ParquetFile]:
    """A Parquet file to read from, within a `with` block."""
    with reading(place):
        if is_url(place):
            system, path = file_system(place)
            file = pq.ParquetFile(system.open_input_file(path))
        else:
            file = current().read(os.fspath(place), parquet.open_file)
        with file:
            yield file


def parquet_footer(place: Location) -> pq.FileMetaData:
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), pq.read_metadata)
        system, path = file_system(place)
        return pq.read_metadata(path, filesystem=system)


def read_parquet(place: Location, columns: Sequence[str] | None = None) -> pa.Table:
    wanted = None if columns is None else list(columns)
    with reading(place):
        if not is_url(place):
            return current().read(os.fspath(place), lambda path: parquet.read_all(path, wanted))
        system, path = file_system(place)
        return pq.read_table(path, columns=wanted, partitioning=None, filesystem=system)


def write_parquet(table: pa.Table, place: Location, **options: Any) -> pq.FileMetaData:
    """Write a table, and give the footer of the file, which need not be read again."""
    if is_url(place):
        system, path = file_system(place)
        with writing(place):
            return parquet.write_file(table, path, filesystem=system, **options)
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


def _read_text(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return file.read().decode("utf-8")


def _write_text(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def _info(place: Location) -> fs.FileInfo:
    system, path = file_system(place)
    return system.get_file_info(path)


def _is_of_this_machine(place: Location) -> bool:
    return os.fspath(place).startswith("file://")
