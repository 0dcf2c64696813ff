"""Deletes files that nothing needs any more: those of versions that nobody refers to, of dropped objects, and leftovers.

Only files that the lake itself made are ever deleted: those below its own folders for tables, its log and its staging folder.
Commit files of Delta logs stay; they are the history, which `trim` shortens.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from nabla.errors import NablaError
from nabla.storage import (
    boundary,
    deltalog,
    key_counts,
    lake_commit,
    locations,
    machine,
    running_files,
    uncommitted,
)
from nabla.storage.boundary import LOG, STAGING, TABLES
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog
from nabla.storage.machine import current
from nabla.storage.table import StoredTable


@dataclass(frozen=True, repr=False)
class Vacuumed:
    """The deleted files, or in a dry run those to delete: paths relative to the lake, and their size. `paths` may be very
    many, so printing this gives their number."""

    paths: tuple[str, ...]
    bytes: int

    def __repr__(self) -> str:
        return f"{len(self.paths)} files and folders, {_readable(self.bytes)}"


def vacuum(
    lake: LakeLog,
    keep: Mapping[str, int],
    *,
    grace: float,
    dry_run: bool = False,
    only: Collection[str] | None = None,
    most: int | None = None,
) -> Vacuumed:
    """Delete files that have not been needed for `grace` seconds.

    `keep` gives, by the path of a part, the oldest version that somebody still needs; a part that is not named needs
    its current one only. `grace` must be longer than any transaction or read takes: it protects files that are written
    but not yet committed by processes whose leases have run out, and versions that a reader has just opened. A process that
    wakes up too late is refused: a fence in the lake's log comes before the first deletion. NABLA_GRACE for a negative one.
    With `only`, a vacuum looks at the lake's log and at these parts, given by their paths; `most` bounds the number of files.
    """
    if grace < 0:
        raise NablaError("NABLA_GRACE", f"a vacuum cannot keep files for {grace:g} seconds", remedy="Use zero or more.")
    state = lake.whole_state()
    cutoff = min(current().now() - grace, uncommitted.oldest_living(lake.path) or math.inf)
    doomed = _doomed(lake, state, keep, cutoff, only)[:most]
    tables = tuple(os.path.join(lake.path, home, "") for home in (TABLES, STAGING))
    if not dry_run and any(path.startswith(tables) for path in doomed):
        fenced = lake.fence(state, cutoff)
        if fenced.version > state.version + 1:  # another process has committed since, and may need some of these files
            doomed = _doomed(lake, fenced, keep, cutoff, only)[:most]
    size = sum(map(_size, doomed))
    if not dry_run:
        for path in doomed:
            machine.point("vacuum.delete")
            _delete(path)
    return Vacuumed(tuple(os.path.relpath(path, lake.path) for path in doomed), size)


def _doomed(
    lake: LakeLog, state: LakeState, keep: Mapping[str, int], cutoff: float, only: Collection[str] | None
) -> list[str]:
    """The files and folders older than the cutoff that a state of the lake does not need."""
    doomed: list[str] = []
    boundary.check_lake(lake.path)
    for path, version in _owned(lake, state).items():
        if only is not None and path not in only:
            continue
        boundary.check_table(lake.folder(path), lake.path)
        doomed += _unneeded_files(lake.table(path), min(version, keep.get(path, version)), cutoff)
        doomed += _unnamed_commits(lake.table(path), cutoff)
    log = StoredTable(os.path.join(lake.path, LOG))
    doomed += _unneeded_files(log, log.latest(), cutoff)
    if only is not None:
        return doomed
    used = _references(lake, state) | _references(lake, _state_at(lake, log, cutoff))
    doomed += _unused_folders(lake, used, cutoff)
    return [*doomed, *uncommitted.expired(lake.path), *running_files.dead_runs(lake.path)]


def _owned(lake: LakeLog, state: LakeState) -> dict[str, int]:
    """The tables that the lake made, by path, with their current versions."""
    home = os.path.join(lake.path, TABLES) + os.sep
    parts = (part for entry in state.everything.values() for part in entry.parts.values())
    return {p.path: p.version for p in parts if not locations.is_absolute(p.path) and lake.folder(p).startswith(home)}


def _unneeded_files(table: StoredTable, oldest: int, cutoff: float) -> Iterator[str]:
    """The old files of a table that no version from `oldest` on has, nor any that was current after the cutoff."""
    oldest = min(oldest, _version_at(table, cutoff))
    needed = _needed(table, oldest)
    for folder, subfolders, names in locations.tree(table.folder):
        if folder == table.folder:
            subfolders[:] = [name for name in subfolders if name not in (deltalog.FOLDER, key_counts.FOLDER)]
        for name in names:
            path = os.path.join(folder, name)
            if os.path.relpath(path, table.folder) not in needed and _modified(path) < cutoff:
                yield path


def _unnamed_commits(table: StoredTable, cutoff: float) -> Iterator[str]:
    """Commits and checkpoints that a killed process had written, but not given their names."""
    log = deltalog.log_folder(table.folder)
    for name in locations.names(log):
        path = os.path.join(log, name)
        if name.startswith(locations.SCRATCH) and _modified(path) < cutoff:
            yield path


def _needed(table: StoredTable, oldest: int) -> set[str]:
    """All files of the versions from `oldest` on, and the changes recorded after it."""
    latest = table.latest()
    needed = {path for file in table.snapshot(latest).files for path in file.paths}
    try:
        needed |= {path for file in table.snapshot(oldest).files for path in file.paths}
    except NablaError as error:
        if error.code != "NABLA_VERSION_GONE":
            raise
    for commit in deltalog.commits(table.folder, oldest, latest):
        if commit is not None:
            needed |= {*commit.adds, *commit.vectors, *lake_commit.named_beside(commit.metadata)}
    return needed


def _version_at(table: StoredTable, cutoff: float) -> int:
    """The version that was current at a time."""
    version = table.latest()
    while version > 0:
        commit = deltalog.read_commit(table.folder, version)
        if commit is None or commit.timestamp <= cutoff * 1000:
            break
        version -= 1
    return version


def _state_at(lake: LakeLog, log: StoredTable, cutoff: float) -> LakeState | None:
    try:
        return lake.whole_state(_version_at(log, cutoff))
    except NablaError as error:
        if error.code != "NABLA_VERSION_GONE":
            raise
        return None


def _references(lake: LakeLog, state: LakeState | None) -> set[str]:
    entries = state.everything.values() if state else ()
    return {os.path.realpath(lake.folder(part)) for entry in entries for part in entry.parts.values()}


def _unused_folders(lake: LakeLog, used: set[str], cutoff: float) -> Iterator[str]:
    """Folders of objects that were dropped or never committed, and staging folders that nobody works in."""
    for home, ours in ((TABLES, r".+-[0-9a-f]{8}"), (STAGING, r"[0-9a-f]{32}")):
        folder = os.path.join(lake.path, home)
        for name in sorted(locations.names(folder)) if locations.is_folder(folder) else ():
            path = os.path.join(folder, name)
            if not re.fullmatch(ours, name) or locations.is_link(path) or not locations.is_folder(path):
                continue
            if not _in_use(path, used) and max(map(_modified, _tree(path))) < cutoff:
                yield path


def _in_use(path: str, used: set[str]) -> bool:
    """Whether a part lives here or below: somebody may have registered a table that lies inside of the lake."""
    real = os.path.realpath(path)
    return any(part == real or part.startswith(real + os.sep) for part in used)


def _tree(path: str) -> Iterator[str]:
    for folder, _, names in locations.tree(path):
        yield folder
        yield from (os.path.join(folder, name) for name in names)


def _readable(size: int) -> str:
    number, unit = float(size), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"


def _size(path: str) -> int:
    files = [path] if locations.is_file(path) else [name for name in _tree(path) if locations.is_file(name)]
    return sum(map(locations.size, files))


def _modified(path: str) -> float:
    try:
        return locations.modified(path)
    except FileNotFoundError:
        return 0.0  # somebody else vacuums, too


def _delete(path: str) -> None:
    if locations.is_folder(path) and not locations.is_link(path):
        locations.remove_folder(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            locations.remove(path)
