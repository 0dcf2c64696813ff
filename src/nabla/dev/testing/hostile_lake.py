"""Lakes as somebody with bad intentions would make them: the catalog says what Nabla never writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from nabla.storage import locations
from nabla.storage.boundary import LOG
from nabla.storage.catalog import FORMAT, Entry, to_table
from nabla.storage.files import describe
from nabla.storage.lakelog import LakeLog
from nabla.storage.table import StoredTable


def forge(lake: Path, change: Callable[[Entry], Entry], name: str = "orders") -> None:
    """Put another entry into the catalog, without the checks and promises of a commit."""
    state = LakeLog.open(lake).state()
    forged = change(state.entries[name])
    rest = {n: entry for n, entry in state.entries.items() if n != name}
    log = StoredTable(lake / LOG)
    locations.write_parquet(to_table(rest | {forged.name: forged}), lake / LOG / "forged.parquet")
    said = {"format": FORMAT, "operation": "forged", "transaction": "", "timestamp": int(time.time() * 1000)}
    file = describe(lake / LOG, "forged.parquet")
    log.commit([file], [state.file], said | {"objects": {}}, state.version)


def files_in(folder: Path) -> dict[str, bytes]:
    """All that is in a folder, to see that nothing was touched."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
