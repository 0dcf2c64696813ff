"""Dropping tables, views and constraints that nothing depends on."""

from __future__ import annotations

from nabla.lake.context import LakeContext
from nabla.lake.write.commit import Commit


def drop(context: LakeContext, name: str, *kinds: str) -> None:
    """Drop an object of one of these kinds, together with the views that are auxiliary to it."""
    state = context.log.state()
    names = context.names(state)
    entry = names.droppable(name, kinds)
    own = names.auxiliary_to(entry.name)
    with context.events.run("drop", [entry.name]), Commit(context, state) as commit:
        commit.drop([entry.name, *own])
        commit.publish(f"drop {entry.kind}")
