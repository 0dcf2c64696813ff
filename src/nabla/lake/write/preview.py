"""Previews: the change that a transaction would make. Nothing is committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nabla._cached import cached_property
from nabla.engine import types
from nabla.lake.constraints.violations import Violation
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import sources_of
from nabla.lake.objects.sources import columns_of, make_source
from nabla.lake.refresh.subscriptions import ViewChange
from nabla.lake.write.commit import Commit
from nabla.lake.write.transaction import Transaction
from nabla.storage.catalog import Entry, LakeState


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
    """Let all views and constraints follow a transaction that is not committed, and collect their changes."""
    changes = transaction.changes
    changes.take_over_written()
    state = changes.state
    with Commit(context, state) as commit:  # this commit is never published
        changes.put_into(commit)
        commit.follow(sources_of)
        found = {name: _change(context, state.entries[name], commit.state) for name in sorted(commit.moved)}
        kinds = {name: state.entries[name].kind for name in found}
        by_kind = {k: {n: c for n, c in found.items() if kinds[n] == k} for k in ("table", "view", "constraint")}
        return Preview(by_kind["table"], by_kind["view"], by_kind["constraint"], commit.violations())


def _change(context: LakeContext, before: Entry, state: LakeState) -> ViewChange:
    old, new = before.parts["data"].version, state.entries[before.name].parts["data"].version
    source = make_source(context.log, before.name, state, old, new)
    schema = types.rename(types.from_json(source.after.schema_json), columns_of(before))
    return ViewChange(before.name, old, new, schema, source.change_rows())
