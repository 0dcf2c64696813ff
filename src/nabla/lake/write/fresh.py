"""Views as they would be: after a refresh, or after a transaction that is not committed. Nothing is committed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from pyspark.sql import DataFrame

from nabla.engine.sources import user_frame
from nabla.engine.spark.frames import Workspace, copy_session
from nabla.frontends.spark_sql.define import refuse_statement
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import upstream_units
from nabla.lake.objects.sources import columns_of
from nabla.lake.refresh.facts import PinnedVersions
from nabla.lake.refresh.rules import ask, tables_of_question
from nabla.lake.write.commit import Commit
from nabla.lake.write.conditions import entry_frame
from nabla.lake.write.table_changes import TableChanges
from nabla.storage import locations
from nabla.storage.catalog import Entry, LakeState, Part, Pending
from nabla.storage.table import Snapshot


def read_fresh(
    context: LakeContext,
    entry: Entry,
    changes: TableChanges | None = None,
    state: LakeState | None = None,
    workspace: Workspace | None = None,
) -> DataFrame:
    """A view as a refresh would leave it, after the changes of a transaction if they are given, or in a state of the lake. The
    files of that version are kept for this reader alone."""
    with _refreshed(context, [entry.name], changes, state) as state:
        snapshot = _keep(context, state.entries[entry.name].parts["data"])
        return user_frame(workspace or context.spark.home, snapshot, columns_of(entry))


def query_fresh(
    context: LakeContext, text: str, changes: TableChanges, tables: Mapping[str, Entry], views: Iterable[Entry]
) -> tuple[DataFrame, Workspace]:
    """A query over tables as a transaction has changed them and views as they would be then, in a session of its own: other
    queries know other versions by the same names. The workspace has to live as long as the frame."""
    refuse_statement(context.spark.session, text)
    workspace = Workspace(copy_session(context.spark.session), context.log.new_staging())
    with context.translating("query in a transaction"):
        for name, entry in tables.items():
            entry_frame(context, workspace, entry).createOrReplaceTempView(name)
        for entry in views:
            read_fresh(context, entry, changes, workspace=workspace).createOrReplaceTempView(entry.name)
        return workspace.session.sql(text), workspace


def ask_fresh(context: LakeContext, question: str, changes: TableChanges) -> DataFrame:
    """The answer to a question about rules, after the changes of a transaction."""
    with _refreshed(context, tables_of_question(question, changes.state), changes) as state:
        return ask(context, question, state)


@contextmanager
def _refreshed(
    context: LakeContext, names: list[str], changes: TableChanges | None, state: LakeState | None = None
) -> Iterator[LakeState]:
    """The state of the lake in which these objects, and all that they read, would be up to date."""
    if changes is not None:
        changes.take_over_written()
    with Commit(context, changes.state if changes else state or context.log.state()) as commit:  # it is never published
        if changes is not None:
            changes.put_into(commit)
        versions = PinnedVersions(context.log, commit.state)
        for unit in upstream_units(names, commit.state):
            now = commit.state
            commit.maintain(unit, versions.sources(now.entries[unit[0]], now), "auto")
        yield commit.state


def _keep(context: LakeContext, part: Part) -> Snapshot:
    """A version that is not committed, with its new files moved to where they live as long as the lake is open."""
    snapshot = context.log.snapshot(part)
    pending = part.pending or Pending()
    new = {file.path for file in pending.adds} - {file.path for file in pending.removes}
    home = context.spark.home.path()
    locations.make_folder(home)
    files = []
    for file in snapshot.files:
        if file.hidden is not None:
            file.hidden.marked(snapshot.folder)  # read while its deletion vector is there
        if file.path in new:
            kept = os.path.join(home, file.path)
            locations.move(snapshot.path(file), kept)
            file = replace(file, path=kept)
        files.append(file)
    return replace(snapshot, files=tuple(files))
