"""Commits of Delta logs at URLs: object stores have their own ways to create a file that is not there yet, which deltalake
knows, and what they have stored is safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from nabla.storage import deltalog
from nabla.storage.delta_writer import CONFIGURATION
from nabla.storage.files import DataFile
from nabla.storage.machine import current

_AFTER_COMMIT = PostCommitHookProperties(cleanup_expired_logs=False)


def create(folder: str, schema: Schema, adds: Sequence[DataFile], metadata: Mapping[str, Any]) -> None:
    """Make version 0 of a table. DeltaError where there is a table, or where it cannot be made."""
    create_table_with_add_actions(
        folder,
        schema,
        [_add(file) for file in adds],
        configuration=CONFIGURATION,
        commit_properties=_properties(metadata),
        post_commithook_properties=_AFTER_COMMIT,
    )


def commit(
    handle: DeltaTable, adds: Sequence[DataFile], removes: Sequence[DataFile], metadata: Mapping[str, Any]
) -> None:
    """Make the version after the one of the handle. CommitFailedError where somebody else made it."""
    moves = not metadata.get(deltalog.REARRANGED)
    added, removed = (_add(file, moves) for file in adds), (_remove(file, moves) for file in removes)
    actions: list[AddAction | RemoveAction] = [*added, *removed]
    handle.create_write_transaction(
        actions,
        mode="append",
        schema=handle.schema(),
        commit_properties=_properties(metadata),
        post_commithook_properties=_AFTER_COMMIT,
    )


def _add(file: DataFile, data_change: bool = True) -> AddAction:
    return AddAction(file.path, file.bytes, {}, int(current().now() * 1000), data_change, file.delta_statistics)


def _remove(file: DataFile, data_change: bool) -> RemoveAction:
    return RemoveAction(file.path, data_change, int(current().now() * 1000), file.bytes)


def _properties(metadata: Mapping[str, Any]) -> CommitProperties:
    # No retries: they would put the commit on top of somebody else's, which is not what the caller looked at.
    return CommitProperties(custom_metadata={deltalog.SECTION: dict(metadata)}, max_commit_retries=0)
