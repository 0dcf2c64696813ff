"""Files that others put into folders: which ones a pattern names, and whether one has changed since it was last seen."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote

from pyarrow import fs

from nabla._cached import cached_property
from nabla.storage import locations
from nabla.storage.machine import current, reading
from nabla.storage.url_systems import file_system

_MAGIC = re.compile(r"[*?\[{]")
_BLOCK = 1 << 20
_UNSETTLED = 2.0
"""Seconds within which a file may be written again without another time: its stamp says nothing until it is older."""
FRESH = "?"
"""The end of a stamp that must not be trusted the next time."""


@dataclass(frozen=True)
class FilePattern:
    """The files below a folder whose paths match a pattern: `*`, `?`, `[ab]`, `{a,b}`, and `**` for any number of folders. A
    folder stands for all files in it. Files and folders whose names begin with `_` or `.` are passed over, as Spark does."""

    text: str

    @cached_property
    def base(self) -> str:
        """The folder that all of the files are in: what comes before the first part with a sign of the pattern."""
        parts = self.whole.split("/")
        plain = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), len(parts) - 1)
        return "/".join(parts[:plain]) or "/"

    @cached_property
    def whole(self) -> str:
        """The pattern with its folder written out: where a folder was named, the pattern of all files in it."""
        text = locations.named(self.text)
        return text + "/**/*" if not _MAGIC.search(text) and locations.is_folder(text) else text

    @cached_property
    def _matching(self) -> re.Pattern[str]:
        return re.compile(_translated(self.whole[len(self.base) :].lstrip("/")))

    def paths(self) -> Iterator[str]:
        """The paths of the files that are there now, in no order."""
        for folder, folders, names in _tree(self.base):
            below = folder[len(self.base) :].strip("/")
            folders[:] = [name for name in folders if not _is_hidden(name)]
            if any(_is_hidden(part) for part in below.split("/") if part):
                continue
            for name in names:
                relative = f"{below}/{name}" if below else name
                if not _is_hidden(name) and self._matching.fullmatch(relative):
                    yield os.path.join(folder, name)


def _tree(base: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Every folder with the names in it. A folder that may not be read is an error: its files are not gone."""
    if locations.is_url(base):
        yield from locations.tree(base)
        return
    with reading(base):
        yield from os.walk(base, onerror=_raise)


def _raise(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a folder that has gone since it was listed
        raise error


def stamp(path: str) -> str | None:
    """What tells a version of a file from others without reading it: its size, its times, and where it is stored. None where
    there is no such file."""
    if locations.is_url(path):
        system, inner = file_system(path)
        found = system.get_file_info(inner)
        return None if found.type != fs.FileType.File else f"{found.size} {found.mtime_ns}"
    try:
        with reading(path):
            status = current().stat(path)
    except FileNotFoundError:
        return None
    known = f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"
    return known + FRESH if abs(current().now() - max(status.st_mtime, status.st_ctime)) < _UNSETTLED else known


def digest(path: str) -> str:
    """A checksum of the content of a file."""
    found = hashlib.blake2b(digest_size=16)
    system, inner = file_system(path) if locations.is_url(path) else (fs.LocalFileSystem(), path)
    with reading(path), system.open_input_stream(inner) as stream:
        while block := stream.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def path_of(uri: str) -> str:
    """The path that a URI of Spark stands for, or the URL of a file that is not on this machine."""
    path = unquote(uri)
    return "/" + path[len("file:") :].lstrip("/") if path.startswith("file:") else path


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _translated(pattern: str) -> str:
    """A pattern of paths as a regular expression."""
    found, place, depth = [], 0, 0
    while place < len(pattern):
        sign = pattern[place]
        place += 1
        if pattern.startswith("**/", place - 1):
            found.append("(?:[^/]+/)*")
            place += 2
        elif sign == "*":
            found.append("[^/]*" if not pattern.startswith("*", place) else ".*")
            place += pattern.startswith("*", place)
        elif sign == "?":
            found.append("[^/]")
        elif sign == "[" and (end := pattern.find("]", place + 1)) > 0:
            inner = pattern[place:end].replace("\\", "\\\\")
            found.append(f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
            place = end + 1
        elif sign == "{" and "}" in pattern[place:]:
            found.append("(?:")
            depth += 1
        elif sign == "}" and depth:
            found.append(")")
            depth -= 1
        else:
            found.append("|" if sign == "," and depth else re.escape(sign))
    return "".join(found)
