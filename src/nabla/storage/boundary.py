"""The boundary of a lake: it writes to its own folder, and deletes from it, whatever its catalog or a link in it says.

A lake may come from somebody else. Its catalog could call a table of the user its own, and so could a symbolic link: whoever
opens the lake would then keep promises in a foreign table, and a vacuum would delete from it. So paths are checked when a
catalog is read, and where they really lead before anything is written or deleted there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from nabla.errors import NablaError
from nabla.storage import locations
from nabla.storage.locations import Location

LOG = "_nabla/log"
STAGING = "_nabla/staging"
LEASES = "_nabla/leases"
QUERIES = "_nabla/queries.jsonl"
RUNNING = "_nabla/running"
STREAMS_FOLDER = "_nabla/streams"
"""The folder of what streams into the lake's tables have read."""
PUBLICATIONS = "_nabla/publications.json"
"""The file that says what a lake publishes; there is none before it does."""
TABLES = "tables"
"""The folder of the tables that a lake makes."""

CHANGES = "_changes"
CAPTURES = "_change_data"
"""The folder of Delta's change data feed in a table's folder."""
KEYS = "_keys"
_FOLDERS_OF_A_LAKE = (os.path.dirname(LOG), LOG, f"{LOG}/_delta_log", STAGING, LEASES, RUNNING, STREAMS_FOLDER, TABLES)
_FOLDERS_OF_A_TABLE = ("_delta_log", CHANGES, CAPTURES, KEYS)


def check_path(path: str, lake: Location, what: str) -> None:
    """Refuse a path for a table of the lake that is not that of a folder in `tables`."""
    home, _, folder = path.partition("/")
    if home != TABLES or "/" in folder or not locations.stays_below(folder):
        raise _outside(lake, f"the folder {path!r} of {what}")


def check_files(paths: Iterable[str], place: Location) -> None:
    """Refuse files of a table of the lake that are not in the table's folder."""
    for path in paths:
        if not locations.stays_below(path):
            raise _outside(place, f"the file {path!r}")


def check_links(paths: Iterable[str], place: Location) -> None:
    """Refuse files of a table of the lake that are links: what they lead to would be read, and written into views."""
    whole = [os.path.join(place, path) for path in paths]
    linked = next(filter(locations.is_link, (*whole, *sorted(set(map(os.path.dirname, whole)) - {place}))), None)
    if linked is not None:
        raise _outside(place, f"{linked!r} is a link, and what it leads to")


def check_lake(lake: Location) -> None:
    """Refuse a lake whose own folders lead elsewhere."""
    for folder in _FOLDERS_OF_A_LAKE:
        _check_link(os.path.join(lake, folder), lake)


def check_table(folder: Location, lake: Location) -> None:
    """Refuse a table of the lake whose folder, or one in it that Nabla writes to, leads elsewhere."""
    plainly = _is_plainly_in(os.fspath(folder), os.fspath(lake))
    if not plainly and not locations.is_really_in(folder, lake):
        raise _linked(folder, lake)
    for inner in _FOLDERS_OF_A_TABLE:
        _check_link(os.path.join(folder, inner), lake)


def _is_plainly_in(path: str, folder: str) -> bool:
    """Whether a path leads from a folder into it without any link: wherever the folder really is, the path is in it."""
    inner = path[len(folder) + 1 :]
    if locations.is_url(path) or path != f"{folder}/{inner}" or not locations.stays_below(inner):
        return False
    for name in inner.split("/"):
        folder = f"{folder}/{name}"
        if os.path.islink(folder):
            return False
    return True


def _check_link(place: Location, lake: Location) -> None:
    """Refuse a place that is a link out of the lake. The folder that the place is in has been checked, so that a place
    which is no link needs no look at all folders above it: this is done at every commit."""
    if locations.is_link(place) and not locations.is_really_in(place, lake):
        raise _linked(place, lake)


def _linked(place: Location, lake: Location) -> NablaError:
    return _outside(lake, f"the folder {os.fspath(place)!r} is a link, and what it leads to")


def _outside(place: Location, what: str) -> NablaError:
    return NablaError(
        "NABLA_OUTSIDE",
        f"{what} is outside of the lake",
        place=os.fspath(place),
        remedy="Nabla makes no such lake: ask whoever gave it to you. Replace a link by what it leads to.",
    )
