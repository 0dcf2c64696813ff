"""A version of a table as a folder of plain Parquet files, which nobody changes any more.

Files of the version are linked, not copied: a link takes no space, and a vacuum of the lake leaves it. Only files with
rows that a deletion vector hides are written anew without these.
"""

from __future__ import annotations

import os
import uuid

from nabla.storage import files, locations, reading
from nabla.storage.table import Snapshot

FOLDER = "_nabla/published"
"""The folder of published versions in a lake."""


def write_version(lake: str, name: str, snapshot: Snapshot) -> str:
    """A new folder with the rows of a version."""
    folder = os.path.join(lake, FOLDER, f"{name}-{snapshot.version}-{uuid.uuid4().hex[:8]}")
    locations.make_folder(folder)
    for number, file in enumerate(snapshot.files):
        if file.hidden is None:
            locations.link(snapshot.path(file), os.path.join(folder, f"{number:06d}-{os.path.basename(file.path)}"))
        else:
            files.write(folder, reading.read_file(snapshot, file))
    return folder


def remove_others(lake: str, name: str, kept: set[str]) -> None:
    """Delete the published versions of an object but for those that readers may be reading."""
    home = os.path.join(lake, FOLDER)
    for found in locations.names(home) if locations.exists(home) else ():
        whole = os.path.join(home, found)
        if found.rsplit("-", 2)[0] == name and whole not in kept:
            locations.remove_folder(whole)
