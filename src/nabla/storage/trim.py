"""The log of a table without its beginning: a checkpoint says what the commits before it add up to, and they are deleted.

The newest checkpoint that is old enough stays, with the one before it and all commits since: should one of them be damaged,
the other still leads to every version that is left. Both are compared before anything is deleted.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from nabla.errors import NablaError
from nabla.storage import deltalog, key_counts, locations, log_replay, machine
from nabla.storage.table import StoredTable


@dataclass(frozen=True)
class Trimmed:
    """The number of deleted files of logs, and their size."""

    files: int = 0
    bytes: int = 0

    def __add__(self, other: Trimmed) -> Trimmed:
        return Trimmed(self.files + other.files, self.bytes + other.bytes)


def trim(
    table: StoredTable, needed: int, before: float, *, keeps_first: bool = False, most: int | None = None
) -> Trimmed:
    """Delete commits and checkpoints of a log that lead to versions before `needed` only, and were made `before` a time.

    With `keeps_first` the commit of version 0 stays. `most` bounds the number of files. NABLA_CORRUPT where checkpoints and
    commits contradict each other: then nothing is deleted.
    """
    base, newer = _bases(table.folder, needed, before)
    names = list(_names_before(table.folder, base, keeps_first))[:most]
    if not names:
        return Trimmed()
    if not _can_be_told(table.folder, base, newer):
        return Trimmed()
    log = deltalog.log_folder(table.folder)
    locations.sync_folder(log)  # the checkpoints must be there to stay
    done = Trimmed()
    for name in names:  # the oldest first: whatever is left is a whole log
        machine.point("trim.delete")
        done += _delete(os.path.join(log, name))
    for path in _counts_before(table.folder, base):
        done += _delete(path)
    return done


def _bases(folder: str, needed: int, before: float) -> tuple[int, int]:
    """The two newest checkpoints that lead to all versions that must stay; zeros where there are no two of them."""
    listed = deltalog.log_files(folder)
    checkpoints = sorted({v for v, kind in listed if kind == log_replay.CHECKPOINT and v <= needed})
    old = bisect_right(checkpoints, before * 1000, key=lambda version: _timestamp(folder, version))
    return (checkpoints[old - 2], checkpoints[old - 1]) if old >= 2 else (0, 0)


def _timestamp(folder: str, version: int) -> float:
    commit = deltalog.read_commit(folder, version)
    return commit.timestamp if commit is not None else 0.0


def _names_before(folder: str, base: int, keeps_first: bool) -> Iterator[str]:
    for version, kind in sorted(deltalog.log_files(folder)):
        if version < base and not (keeps_first and version == 0 and kind == "json"):
            yield f"{version:020d}.{kind}"


def _can_be_told(folder: str, base: int, newer: int) -> bool:
    """Whether both checkpoints are understood: else the log stays as it is. NABLA_CORRUPT where the commits after one of them
    do not lead to the other."""
    try:
        summed, said = log_replay.replay_after(folder, base, newer), log_replay.replay_after(folder, newer, newer)
    except log_replay.Incomplete as error:
        raise deltalog.corrupt(folder, f"a commit between the versions {base} and {newer} is missing") from error
    except log_replay.Uncertain:
        return False
    alike = {(file.path, file.hidden) for file in summed.files} == {(file.path, file.hidden) for file in said.files}
    if not alike or summed.schema_json != said.schema_json:
        raise deltalog.corrupt(folder, f"the checkpoint of version {newer} is not what its log adds up to")
    return True


def _counts_before(folder: str, base: int) -> Iterator[str]:
    """Counts of keys of versions from which the log leads nowhere any more."""
    home = os.path.join(folder, key_counts.FOLDER)
    for name in locations.names(home) if locations.is_folder(home) else ():
        version = unquote(name).removesuffix(".arrow").rpartition("-")[2]
        if version.isdigit() and int(version) < base:
            yield os.path.join(home, name)


def _delete(path: str) -> Trimmed:
    with suppress(
        FileNotFoundError, NablaError
    ):  # somebody else trims, too; what cannot be deleted is left to the next
        size = locations.size(path)
        locations.remove(path)
        return Trimmed(1, size)
    return Trimmed()
