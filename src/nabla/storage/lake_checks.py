"""Checks of a lake as a whole, and of a commit that is about to be made, and the errors that they raise."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence

from nabla.errors import NablaError
from nabla.storage import deltalog, locations
from nabla.storage.boundary import TABLES
from nabla.storage.catalog import FORMAT, Part
from nabla.storage.deltalog import corrupt
from nabla.storage.table import StoredTable

_LOG = logging.getLogger("nabla")

UNSURE = "may not survive a power cut"
"""Words of the warning about a commit that the disk has not confirmed."""


def check_vacant(path: str) -> None:
    """NABLA_NOT_A_LAKE where a folder holds anything that a new lake would be in the way of."""
    if not locations.exists(path):
        return
    tables = os.path.join(path, TABLES)
    if not locations.is_folder(path) or set(locations.names(path)) - {"_nabla", TABLES}:
        raise not_a_lake(path)
    if locations.exists(tables) and locations.names(tables):
        raise not_a_lake(path)  # a lake that died at birth has no tables


def check_format(found: object, path: str) -> None:
    """NABLA_FORMAT where the lake was made by a newer Nabla."""
    if not isinstance(found, int):
        raise corrupt(path, "the lake's log does not say its format")
    if found > FORMAT:
        known = f"the lake has format {found}; this Nabla knows up to {FORMAT}"
        raise NablaError("NABLA_FORMAT", known, place=path, remedy="Upgrade Nabla.")


def not_a_lake(path: str) -> NablaError:
    """The error for a folder that holds no lake."""
    return NablaError(
        "NABLA_NOT_A_LAKE",
        "this folder is not a Nabla lake" if locations.exists(path) else "there is no such folder",
        place=path,
        remedy="Choose a new or empty folder.",
    )


def vacuumed_too_early(folder: str, path: str) -> NablaError:
    """The error for a file that a commit was to name and that is not there any more."""
    return NablaError(
        "NABLA_VACUUMED",
        f"the file {path} was deleted before it could be committed",
        place=folder,
        remedy="Repeat the operation; give vacuum a grace period that is longer than any operation takes.",
    )


def newest_fence(log: StoredTable, after: int, upto: int) -> float | None:
    """The cutoff of the newest fence between two versions of the lake. A commit that was trimmed may have been a fence at any
    time, so that nothing from before counts as safe."""
    versions = range(after + 1, upto + 1)
    found = [cutoff for v in versions if (cutoff := log.metadata(v).get("cutoff")) is not None]
    if not all(locations.exists(deltalog.commit_path(log.folder, v)) for v in versions):
        return math.inf
    return max(found, default=None)


def trimmed(path: str, version: int) -> NablaError:
    """The error for a version of the lake whose commit was deleted after the time for which history is kept."""
    return NablaError(
        "NABLA_VERSION_GONE",
        f"version {version} of the lake is older than the history that is kept",
        place=path,
        remedy="Choose one that `lake.history()` has; `lake.housekeeping(history=…)` says how long they are kept.",
    )


def check_after_fence(table: StoredTable, part: Part, named: Sequence[str], cutoff: float, *, is_new: bool) -> None:
    """NABLA_VACUUMED where a commit after a fence names a file from before its cutoff that no commit had named: a vacuum may
    be about to delete it."""
    removed = part.pending.removes if part.pending else ()
    new = table.snapshot(part.version).files if is_new else ()
    known = {path for file in removed for path in file.paths}
    for path in sorted({*named, *(path for file in new for path in file.paths)} - known):
        try:
            safe = locations.modified(os.path.join(table.folder, path)) >= cutoff
        except FileNotFoundError:
            safe = False
        if not safe:
            raise vacuumed_too_early(table.folder, path)


def foreign_write(folder: str, version: int) -> NablaError:
    """The error for a version that somebody else made in a table of the lake."""
    return NablaError(
        "NABLA_FOREIGN_WRITE",
        f"version {version} of a table that belongs to a lake was written by something else",
        place=folder,
        remedy=f"Delete {version:020d}.json and later ones from its _delta_log, and write through the lake.",
    )


def unkept_promise(folder: str, why: str, remedy: str = "") -> NablaError:
    """The error for a commit that the lake's log has promised and that cannot be written to its table now. It says nothing of
    repeating: what was promised would be done twice."""
    return NablaError(
        "NABLA_WRITE_FAILED",
        f"an earlier commit of the lake cannot be written to this table yet: {why}",
        place=folder,
        remedy=f"Nothing is lost: the next one who uses the lake tries again. {remedy}".rstrip(),
    )


def warn_unsure(version: int, path: str, error: OSError) -> None:
    """Warn of a commit that was made, and that the disk did not confirm."""
    _LOG.warning("version %d of %s was committed, but %s: %s", version, path, UNSURE, error)


def warn_unkept(promise: NablaError) -> None:
    """Warn of a commit that was made, while a table does not show it to others yet."""
    _LOG.warning("The commit stands, and readers of the lake see it. %s", promise)
