"""Lakes for the console's tests: one of those that are kept for compatibility, so that no JVM is needed to make it."""

from __future__ import annotations

import json
import random
import tarfile
import time
from dataclasses import replace
from pathlib import Path

from nabla.dev.testing.hostile_lake import forge
from nabla.storage import locations
from nabla.storage.boundary import LOG
from nabla.storage.catalog import FORMAT, Entry, to_table
from nabla.storage.files import describe
from nabla.storage.lakelog import LakeLog
from nabla.storage.table import StoredTable

KEPT = Path(__file__).parents[1] / "data" / "lake-format-4.tar.xz"
HOSTILE = "</script><script>alert('<b>\"&')</script><img src=x onerror=alert(1)>"


def unpack(folder: Path) -> Path:
    """A copy of the kept lake."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


def make_hostile(folder: Path) -> Path:
    """The lake of somebody with bad intentions: texts of markup and scripts wherever the catalog has a text."""
    lake = unpack(folder)
    for name, change in (("sums", _hostile_view), ("pay", _wrong_key), ("one", _hostile_columns)):
        forge(lake, change, name)
    return lake


def _hostile_view(entry: Entry) -> Entry:
    definition = {**entry.definition, "sql": f"SELECT '{HOSTILE}' AS who FROM pay", "notes": [HOSTILE]}
    definition["outputs"] = [HOSTILE, *definition["outputs"][1:]]
    last = {**entry.facts["last"], "reason": HOSTILE, "mode": HOSTILE}
    return replace(entry, definition=definition, facts={**entry.facts, "last": last})


def _wrong_key(entry: Entry) -> Entry:
    return replace(entry, definition={**entry.definition, "key": ["who"]})


def _hostile_columns(entry: Entry) -> Entry:
    schema = str(entry.definition["schema"]).replace('"one_x"', f'"{HOSTILE}"'.replace('<b>"&', "<b>&"))
    return replace(entry, definition={**entry.definition, "schema": schema})


def make_large(folder: Path, objects: int) -> Path:
    """A lake with many objects: copies of the kept lake's tables and of a view that joins two of them, in layers. The copies
    share their files."""
    lake = unpack(folder)
    state = LakeLog.open(lake).state()
    boss, pay, of = (state.entries[name] for name in ("boss", "pay", "of"))
    tables = objects // 5
    made = {f"boss_{i}": replace(boss, name=f"boss_{i}") for i in range(tables // 2)}
    made |= {f"pay_{i}": replace(pay, name=f"pay_{i}") for i in range(tables - tables // 2)}
    layer = [name for name in made if name.startswith("pay")]
    chance = random.Random(3)
    while len(made) < objects:
        new = []
        for _ in range(min(chance.randint(30, 60), objects - len(made))):
            name = f"view_{len(made):03}"
            left, right = f"boss_{chance.randrange(tables // 2)}", chance.choice(layer)
            made[name] = _joining(of, name, left, right)
            new.append(name)
        layer = new
    log = StoredTable(lake / LOG)
    locations.write_parquet(to_table({**state.entries, **made}), lake / LOG / "large.parquet")
    said = {"format": FORMAT, "operation": "forged", "transaction": "", "timestamp": int(time.time() * 1000)}
    log.commit([describe(lake / LOG, "large.parquet")], [state.file], said | {"objects": {}}, state.version)
    return lake


def _joining(of: Entry, name: str, left: str, right: str) -> Entry:
    """The view `of` over other tables or views with the columns that it reads."""
    text = json.dumps(of.definition).replace('"boss"', f'"{left}"').replace('"pay"', f'"{right}"')
    version = 2 if right.startswith("pay") else 1
    return replace(of, name=name, definition=json.loads(text), facts={**of.facts, "sources": {left: 2, right: version}})
