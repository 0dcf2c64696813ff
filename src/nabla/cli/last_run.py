"""What the last run of a project left, so that a run with nothing to do can tell without starting Spark."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from nabla.cli.locate import LocatedLake, is_lake
from nabla.cli.projects import Run
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.view import load_view

if TYPE_CHECKING:
    from nabla.frontends.pipelines.specification import Spec
    from nabla.lake.facade import Lake

_FILE = "_nabla/last-run.json"
_KINDS = {".py", ".sql", ".rules", ".yml", ".yaml"}


def note_run(lake: Lake, spec: Spec, done: Run) -> None:
    """Remember a run that brought everything up to date. One that read anything outside of the lake is not: there may be
    something new."""
    file = Path(lake.path) / _FILE
    if done.outside or _changes_by_itself(lake):
        file.unlink(missing_ok=True)
        return
    said = {"project": _fingerprint(spec), "version": lake.context.log.state().version, "strangers": done.strangers}
    new = file.with_suffix(".new")
    new.write_text(json.dumps(said), encoding="utf-8")
    new.replace(file)


def repeated(place: LocatedLake, spec: Spec) -> Run | None:
    """The outcome of a run where neither the project nor the lake has changed since the last one; None if one of them has."""
    import nabla

    file = place.lake / _FILE
    if not is_lake(place.lake) or not file.is_file():
        return None
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    if said.get("project") != _fingerprint(spec):
        return None
    lake = nabla.open(place.lake)
    if said.get("version") != lake.context.log.state().version or any(s.stale for s in lake.status().values()):
        return None
    return Run(spec.name, spec.lake, (), (), dict(lake.refresh()), tuple(said.get("strangers", ())))


def _changes_by_itself(lake: Lake) -> bool:
    """Whether the lake has views of the present time, or tables that others write."""
    entries = lake.context.log.state().entries.values()
    return any(
        entry.kind == "registered" or (is_derived(entry) and load_view(entry.name, entry.definition).clock)
        for entry in entries
    )


def _fingerprint(spec: Spec) -> str:
    """All files of the project that say what it defines: those of its libraries, and modules in its folder."""
    found = {spec.file, *spec.files()}
    for folder in (spec.folder, *{file.parent for file in spec.files()}):
        found |= {file for file in folder.rglob("*") if file.suffix in _KINDS and _counts(file, spec)}
    whole = hashlib.sha256()
    for file in sorted(found):
        whole.update(f"{file}\0".encode())
        whole.update(hashlib.sha256(file.read_bytes()).digest() if file.is_file() else b"")
    return whole.hexdigest()


def _counts(file: Path, spec: Spec) -> bool:
    return spec.lake not in file.parents and not any(
        part.startswith(".") for part in file.relative_to(file.anchor).parts
    )
