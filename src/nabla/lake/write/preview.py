"""What would be: the change that a transaction would make, and views as a refresh would leave them. Commits nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from nabla._cached import cached_property
from nabla.engine import types
from nabla.engine.sources import snapshot_frame
from nabla.lake.constraints.violations import Violation
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import derived, units
from nabla.lake.objects.names import columns_of
from nabla.lake.objects.sources import make_source
from nabla.lake.objects.view import load_view
from nabla.lake.refresh.maintain import Maintenance
from nabla.lake.refresh.refresh import Refresh
from nabla.lake.refresh.subscriptions import ViewChange
from nabla.lake.write.commit import Proposal
from nabla.storage import locations
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.table import Snapshot

if TYPE_CHECKING:
    from nabla.lake.write.transaction import Transaction


@dataclass(frozen=True, eq=False)
class Preview:
    """The minimal changes that a transaction would make, by name: of tables, of every view that would follow it now or
    at the next refresh, and of every constraint. `violations` are what constraints would find."""

    tables: Mapping[str, ViewChange]
    views: Mapping[str, ViewChange]
    constraints: Mapping[str, ViewChange]
    violations: tuple[Violation, ...]

    @cached_property
    def changes(self) -> dict[str, ViewChange]:
        return {**self.tables, **self.views, **self.constraints}

    def __getitem__(self, name: str) -> ViewChange:
        return self.changes[name]

    def to_dict(self) -> dict[str, Any]:
        found = {name: change.to_dict() for name, change in self.changes.items()}
        return {"changes": found, "violations": [v.to_dict() for v in self.violations]}

    def __str__(self) -> str:
        return "\n".join([*map(str, self.changes.values()), *map(str, self.violations)]) or "nothing would change"


def preview(context: LakeContext, transaction: Transaction) -> Preview:
    """Let everything follow a transaction that is not committed, and look."""
    transaction._check_open()
    transaction._take_over_all()
    state = transaction._state
    with Maintenance(context) as maintenance:
        proposal = transaction._proposed(maintenance)
        try:
            proposal.follow(derived)
            found = {name: _change(context, state.entries[name], proposal.state) for name in sorted(proposal.moved)}
            kinds = {name: state.entries[name].kind for name in found}
            by_kind = {k: {n: c for n, c in found.items() if kinds[n] == k} for k in ("table", "view", "constraint")}
            return Preview(by_kind["table"], by_kind["view"], by_kind["constraint"], proposal.violations())
        finally:
            proposal.discard()


def _change(context: LakeContext, before: Entry, state: LakeState) -> ViewChange:
    old, new = before.parts["data"].version, state.entries[before.name].parts["data"].version
    source = make_source(context.log, before.name, state, old, new)
    schema = types.renamed(types.from_json(source.after.schema_json), columns_of(before))
    return ViewChange(before.name, old, new, schema, source.change_rows())


def read_fresh(context: LakeContext, entry: Entry) -> DataFrame:
    """A view as it would be after a refresh: the pending change is added on the fly, and kept for this reader alone."""
    refresh = Refresh(context, "auto")
    with refresh.maintenance as maintenance:
        proposal = Proposal(context, refresh.started, maintenance)
        try:
            for names in units([entry.name], refresh.started):
                state = proposal.state
                first = state.entries[names[0]]
                view = load_view(names[0], first.definition)
                sources = {s: refresh.source(s, first, state) for s in view.sources}
                moved = maintenance.bring(names, state, sources, "auto")
                proposal.put(moved.entries, moved.info)
            snapshot = _kept(context, proposal.state.entries[entry.name].parts["data"])
            return snapshot_frame(context.spark.home, snapshot, columns_of(entry))
        finally:
            proposal.discard()


def _kept(context: LakeContext, part: Part) -> Snapshot:
    """A proposed version whose new files are moved to where they live as long as the lake is open."""
    snapshot = context.log.snapshot(part)
    new = {file.path for file in part.pending.adds} if part.pending else set()
    home = context.spark.home.path()
    locations.make_folder(home)
    files = []
    for file in snapshot.files:
        if file.path in new:
            kept = os.path.join(home, file.path)
            locations.move(snapshot.path(file), kept)
            file = replace(file, path=kept)
        files.append(file)
    return replace(snapshot, files=tuple(files))
