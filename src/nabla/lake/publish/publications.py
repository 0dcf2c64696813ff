"""What a lake publishes: a small file beside its log, which every process that commits to the lake looks at."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field

from nabla.errors import NablaError
from nabla.storage import locations
from nabla.storage.boundary import PUBLICATIONS
from nabla.storage.deltalog import corrupt

_FORMAT = 1


@dataclass(frozen=True)
class Publication:
    """A table or view of the lake under a name of a catalog. `comments` are those of its columns that the user gave."""

    name: str
    table: str
    comments: Mapping[str, str] = field(default_factory=dict)


def load_publications(lake: str) -> tuple[Publication, ...]:
    """All publications of a lake, by their names in catalogs. NABLA_CORRUPT where the file is damaged."""
    path = os.path.join(lake, PUBLICATIONS)
    if not locations.exists(path):
        return ()
    try:
        said = json.loads(locations.read_text(path))
        if said["format"] > _FORMAT:
            raise NablaError("NABLA_FORMAT", "publications of a newer Nabla", place=path, remedy="Upgrade Nabla.")
        return tuple(Publication(**one) for one in said["publications"])
    except (ValueError, TypeError, KeyError) as error:
        raise corrupt(path, f"the publications cannot be understood: {error}") from error


def save_publications(lake: str, publications: Collection[Publication]) -> None:
    said = {"format": _FORMAT, "publications": [asdict(one) for one in publications]}
    locations.put_text(os.path.join(lake, PUBLICATIONS), json.dumps(said), overwrite=True)
