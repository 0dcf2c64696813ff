"""The commit files of a Delta log, read as the protocol defines them: which versions there are, what a commit says.

The `deltalake` package tells what a version *contains*; this module answers, in microseconds, the questions that come
before and after: is there a newer version, who made it and with what metadata, did it change data at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from nabla.errors import NablaError
from nabla.storage import locations
from nabla.storage.deletion_vectors import Vector
from nabla.storage.locations import Location
from nabla.storage.machine import reading

SECTION = "nabla"
"""The key of a commit's metadata under which Nabla's own are kept."""

ACTIONS = "nablaActions"
"""The key of a commit's information under which Nabla says how many actions the commit has."""

REARRANGED = "rearranged"
"""The key in Nabla's section of a commit that only wrote rows into other files: its actions say that no data changed."""

FOLDER = "_delta_log"
"""The name of the folder in a table's folder that has its log."""

_NAME = re.compile(r"(\d{20})\.(json|checkpoint\..+)")

CAPTURED = "captured"
"""The key in a commit's metadata that lists the files of its change data feed. The writer of a commit makes actions of them."""


@dataclass(frozen=True)
class CaptureFile:
    """A file of a change data feed; the values of partition columns, as text, are not in the file but here."""

    path: str
    bytes: int
    partition: Mapping[str, str | None]


@dataclass(frozen=True)
class Commit:
    """One version of a Delta log. `adds` are the paths added, `vectors` those of files with their deletion vectors; a commit
    without `data_change` only rearranged rows.

    `captured` are the files of its change data feed, if its writer keeps one.
    """

    version: int
    timestamp: int
    operation: str
    metadata: Mapping[str, Any]
    adds: tuple[str, ...]
    data_change: bool
    captured: tuple[CaptureFile, ...] = ()
    vectors: tuple[str, ...] = ()


def is_delta(folder: Location) -> bool:
    """Whether there is a Delta log with at least one version."""
    return bool(log_files(folder))


def latest_version(folder: Location, known: int = -1) -> int:
    """The newest version. `known`, one that was the newest before, makes this cheap: two looks at the file system."""
    if known >= 0 and _exists(folder, known):
        while _exists(folder, known + 1):
            known += 1
        return known
    listed = log_files(folder)
    if not listed:
        raise not_delta(folder)
    return max(version for version, _ in listed)


def fingerprint(folder: Location, version: int) -> str | None:
    """What tells the commit of a version from any other that a table in this folder may have had; None if it is not there."""
    try:
        text = locations.read_text(commit_path(folder, version))
    except FileNotFoundError:
        return None
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def read_commit(folder: Location, version: int) -> Commit | None:
    """The commit of a version; None if the log was cleaned up."""
    path = commit_path(folder, version)
    try:
        actions = parsed(locations.read_text(path))
        info = _information(actions)
        timestamp = info.get("inCommitTimestamp") or info.get("timestamp") or locations.modified(path) * 1000
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _unreadable(folder, version, error) from error
    if not actions:
        raise _empty(folder, version)
    moved = [body for action in actions for kind, body in action.items() if kind in ("add", "remove")]
    return Commit(
        version=version,
        timestamp=int(timestamp),
        operation=str(info.get("operation", "")),
        metadata=info.get(SECTION) or {},
        adds=tuple(decoded(action["add"]["path"]) for action in actions if "add" in action),
        data_change=any(body.get("dataChange", True) for body in moved),
        captured=tuple(_captured(action["cdc"]) for action in actions if "cdc" in action),
        vectors=tuple(_vectors(action["add"] for action in actions if "add" in action)),
    )


def metadata_of(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Nabla's section of the metadata of a commit with these actions; empty where there is none."""
    return _information(actions).get(SECTION) or {}


def _information(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def _vectors(adds: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The files of deletion vectors in the table's folder. Other writers may have them elsewhere."""
    for body in adds:
        with suppress(ValueError):
            path = Vector.from_json(body["deletionVector"]).path if body.get("deletionVector") else None
            if path is not None:
                yield path


def _captured(action: Mapping[str, Any]) -> CaptureFile:
    partition = {name: value or None for name, value in (action.get("partitionValues") or {}).items()}
    return CaptureFile(decoded(action["path"]), int(action.get("size", 0)), partition)


def read_metadata(folder: Location, version: int) -> Mapping[str, Any]:
    """Nabla's section of a version's commit metadata; empty where there is none. Does not read the actions."""
    path = commit_path(folder, version)
    try:
        with reading(path), locations.open_text(path) as lines:
            line = None
            for line in lines:
                if line.startswith('{"commitInfo"'):
                    return json.loads(line)["commitInfo"].get(SECTION) or {}
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _unreadable(folder, version, error) from error
    if line is None:
        raise _empty(folder, version)
    return {}


def read_actions(folder: Location, version: int) -> list[dict[str, Any]] | None:
    """All actions of a commit; None if it is not there.

    NABLA_CORRUPT where it has no content, or less than its writer said: readers would take it for a smaller change.
    """
    path = commit_path(folder, version)
    try:
        actions = parsed(locations.read_text(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise _unreadable(folder, version, error) from error
    if not actions:
        raise _empty(folder, version)
    if not all(isinstance(action, dict) for action in actions):
        raise _unreadable(folder, version, "a line is no action")
    said = (actions[0].get("commitInfo") or {}).get(ACTIONS, len(actions))
    if said != len(actions):
        raise corrupt(folder, f"version {version} of its log has {len(actions)} of {said} actions")
    return actions


def parsed(text: str) -> list[dict[str, Any]]:
    """The actions that a commit consists of, one a line. ValueError where a line is no JSON."""
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def check_whole(folder: Location, versions: Iterable[int]) -> None:
    """NABLA_CORRUPT where a commit is damaged. Commits that are not there are none of these."""
    for version in versions:
        read_actions(folder, version)


def commits(folder: Location, after: int, upto: int) -> Iterator[Commit | None]:
    """The commits of the versions `after` < v <= `upto`, in order."""
    return (read_commit(folder, version) for version in range(after + 1, upto + 1))


def oldest_version(folder: Location) -> int:
    """The first version whose commit should be there: 0, or the one after the oldest checkpoint of a log that was cleaned.

    The first commit of a lake's log says what lake it is, and stays when the commits after it go.
    """
    listed = log_files(folder)
    checkpoints = [v for v, kind in listed if kind != "json"]
    if not checkpoints:
        return 0
    first = min(checkpoints)
    held = {v for v, kind in listed if kind == "json" and v <= first}
    trimmed = first > 1 and not any(v in held for v in range(1, first))
    return 0 if 0 in held and not trimmed else first + 1


def names_from(folder: Location, version: int) -> list[str]:
    """The names of commits and checkpoints of a version and those after it."""
    return [f"{v:020d}.{kind}" for v, kind in log_files(folder) if v >= version]


def commits_needed(folder: Location, version: int) -> list[int]:
    """The versions after the newest checkpoint up to a version: their commits say what the version is."""
    return [int(name[:20]) for name in names_needed(folder, version) if name.endswith(".json")]


def names_needed(folder: Location, version: int) -> list[str]:
    """The files of a log that say what a version is: the newest checkpoint up to it and the commits after that."""
    listed = [(v, kind) for v, kind in log_files(folder) if v <= version]
    first = max((v for v, kind in listed if kind != "json"), default=-1)
    wanted = [(v, kind) for v, kind in listed if (v > first if kind == "json" else v == first)]
    return [f"{v:020d}.{kind}" for v, kind in sorted(wanted)]


def is_summed_up_elsewhere(folder: Location, version: int) -> bool:
    """Whether all that a checkpoint says follows from an earlier one, or from the beginning, and the commits after that."""
    listed = log_files(folder)
    held = {v for v, kind in listed if kind == "json"}
    before = max((v for v, kind in listed if kind != "json" and v < version), default=-1)
    return all(v in held for v in range(before + 1, version + 1))


def was_cleaned(folder: Location, version: int) -> bool:
    """Whether a version that cannot be loaded is missing because older parts of the log were deleted on purpose.

    Such a deletion leaves a checkpoint and every commit after it; a hole in these is damage.
    """
    listed = log_files(folder)
    checkpoints = {v for v, kind in listed if kind != "json"}
    held = {v for v, kind in listed if kind == "json"}
    if not checkpoints:
        return False
    first = min(checkpoints)
    return version < first and all(v in held for v in range(first + 1, max(held | checkpoints) + 1))


def decoded(path: str) -> str:
    """A path as the file system has it: logs hold them URL-encoded, and whole URLs for files outside of the folder."""
    return unquote(path.removeprefix("file://"))


def not_delta(folder: Location) -> NablaError:
    """The error for a folder that holds no Delta table."""
    return NablaError("NABLA_NOT_DELTA", "this is not a Delta table", place=str(folder), remedy="Check the path.")


def no_version(folder: Location, version: int, latest: int) -> NablaError:
    """The error for a version that never was."""
    remedy = f"The latest is {latest}."
    return NablaError("NABLA_NO_VERSION", f"there is no version {version}", place=str(folder), remedy=remedy)


def corrupt(folder: Location, what: str) -> NablaError:
    """The error for a table (or a lake) whose log or files are damaged."""
    return NablaError(
        "NABLA_CORRUPT",
        f"damaged: {what}",
        place=str(folder),
        remedy="`nabla fsck --repair` mends what can be mended. Restore the rest from a copy.",
    )


def gone(folder: Location, version: int, why: str) -> NablaError:
    """The error for a version whose log or files were deleted."""
    return NablaError(
        "NABLA_VERSION_GONE",
        f"version {version} cannot be read any more: {why}",
        place=str(folder),
        remedy="Refresh the views that read this table in full.",
    )


def _unreadable(folder: Location, version: int, why: object) -> NablaError:
    return corrupt(folder, f"version {version} of its log cannot be read: {why}")


def _empty(folder: Location, version: int) -> NablaError:
    return corrupt(folder, f"version {version} of its log is empty, as after a power cut")


def log_folder(folder: Location) -> str:
    """The folder of a table's log."""
    return os.path.join(os.fspath(folder), FOLDER)


def commit_path(folder: Location, version: int) -> str:
    """The file with the commit of a version."""
    return f"{log_folder(folder)}/{version:020d}.json"


def _exists(folder: Location, version: int) -> bool:
    return locations.exists(commit_path(folder, version))


def log_files(folder: Location) -> list[tuple[int, str]]:
    """The versions and kinds (`json`, or `checkpoint.` and more) of the files of a log; none where there is no log."""
    try:
        names = locations.names(log_folder(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (_NAME.fullmatch(name) for name in names)
    return [(int(match[1]), match[2]) for match in found if match]
