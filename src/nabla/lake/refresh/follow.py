"""Bringing the lake's copies of sources up to date: what a refresh does before it looks at views.

A source made of pieces says which of them came and went. Their rows are exchanged in one commit, which records the minimal
change of all of them: a piece that was only written anew, as by a compaction, is no change. Of a source without pieces all
rows are compared with the copy, as bags. Either way the copy is a table like any other, so that views, constraints and
callbacks follow it as they follow a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from nabla.algebra.expressions import quote
from nabla.engine import types
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.bags import consolidate, repeat, weigh
from nabla.engine.spark.frames import read_parquet
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.lake.objects.graph import LOST, read_through
from nabla.lake.objects.origins import Known, check_listed, copies_in, known_of, origin_of
from nabla.lake.objects.sources import table_of
from nabla.lake.write import write_change
from nabla.lake.write.commit import Commit, retry
from nabla.lake.write.conditions import delete_matching
from nabla.lake.write.operations import delete_frame, insert_frame
from nabla.lake.write.register import refuse_own, schema_changed, stands_at
from nabla.lake.write.table_change import TableChange
from nabla.sources.port import MADE_AGAIN, Origin, Piece, Position
from nabla.storage import files, locations
from nabla.storage.bags import N
from nabla.storage.catalog import HISTORIES, LISTED, ORIGIN, Entry, LakeState, Part
from nabla.storage.copied_table import PIECE, PIECES
from nabla.storage.registered_table import RegisteredTable

MOST_IN_CONDITION = 1000
"""Numbers of pieces in one condition; Spark's parser takes its time for long lists."""


def follow_sources(context: LakeContext, views: Iterable[str] | None = None) -> dict[str, NablaError]:
    """Bring the copies that views read, directly or through others, or all copies, up to date. One that cannot be stays as it
    was: its error, by name."""
    state = context.log.state()
    names = state.entries if views is None else read_through(views, state)
    errors: dict[str, NablaError] = {}
    if any(state.entries[name].kind == "registered" for name in names):
        retry(context, partial(_outdate_replaced, context))
    for entry in (state.entries[name] for name in names if LISTED in state.entries[name].definition):
        try:
            check_listed(context, entry)
        except NablaError as error:
            errors[entry.name] = error
    for entry in copies_in(state, names):
        try:
            retry(context, partial(_follow, context, entry.name))
        except NablaError as error:
            errors[entry.name] = error
    return errors


def _outdate_replaced(context: LakeContext) -> None:
    """Let views forget versions of a table of others that is not the same any more: it was created again in its folder, or
    its history is another one. The next refresh computes them anew, instead of taking numbers of versions for a change."""
    state = context.log.state()
    outdated: dict[str, Entry] = {}
    for reader in state.entries.values():
        told = reader.facts.get(HISTORIES, {})
        versions = {source: reader.facts["sources"][source] for source in told}
        lost = {
            s: LOST for s, v in versions.items() if v != LOST and _was_replaced(context, state.entries[s], v, told[s])
        }
        if lost:
            facts = {**reader.facts, "sources": {**reader.facts["sources"], **lost}}
            outdated[reader.name] = replace(reader, facts=facts)
    if outdated:
        with Commit(context, state) as commit:
            commit.outdate(outdated)
            commit.publish("follow")


def _was_replaced(context: LakeContext, source: Entry, version: int, fingerprint: str | None) -> bool:
    table = table_of(context.log, source)
    if not isinstance(table, RegisteredTable) or fingerprint is None:
        return False
    try:
        replaced = table.was_replaced(version, fingerprint)
        if replaced:
            table.forget()
        return replaced
    except NablaError:  # it is away, which the views that read it are told
        return False


def _follow(context: LakeContext, name: str) -> None:
    begun, state = time.perf_counter(), context.log.state()
    if name not in state.entries:
        return
    entry = state.entries[name]
    origin, known = origin_of(context, entry), known_of(context, entry)
    with context.translating(f'table "{name}"'):
        stood = entry.facts[ORIGIN]
        if origin.has_moved(stood["identity"], stood["version"], known.pieces) is False:
            return
        position = origin.look(known.pieces)
        refuse_own(context, position)
        _check_schema(entry, position)
        _Following(context, state, entry, origin, position, known, begun).run()


def _check_schema(entry: Entry, position: Position) -> None:
    """Refuse a source that has lost columns of the copy, or has others of their names. A source whose rows have to fit given
    columns has none to compare."""
    if not position.schema.fields:
        return
    have = {field.name: field.dataType for field in types.nullable(position.schema).fields}
    wanted = types.from_json(entry.definition["schema"]).fields
    if lost := [field.name for field in wanted if have.get(field.name) != field.dataType]:
        raise schema_changed(entry.name, lost)


@dataclass(frozen=True)
class _Following:
    """One copy on its way to where its source stands."""

    context: LakeContext
    state: LakeState
    entry: Entry
    origin: Origin
    position: Position
    known: Known
    begun: float

    def run(self) -> None:
        """Write the change and commit it. Nothing is committed where nothing has changed, not even a time."""
        pieces = self.position.pieces
        if pieces is not None and pieces == self.known.pieces and self._stays:
            return
        staging: list[str] = []
        try:
            with Commit(self.context, self.state) as commit:
                change = self._new_change()
                if pieces is None:
                    numbers, read, many = None, self._compare(change, staging), 0
                else:
                    numbers, read, many = self._exchange(change, pieces, staging)
                self._put(commit, change, numbers, {"read_bytes": read, "pieces": many})
                if commit.changes:
                    commit.follow()
                    commit.check()
                    commit.publish("follow")
                    commit.end_views()
        finally:
            for folder in staging:
                locations.remove_folder(folder)

    @property
    def _stays(self) -> bool:
        stood = self.entry.facts[ORIGIN]
        return {key: stood[key] for key in ("identity", "version")} == stands_at(self.position)

    def _new_change(self) -> TableChange:
        snapshot = self.context.log.snapshot(self.entry.parts["data"])
        shape = types.from_json(snapshot.schema_json)
        return TableChange(self.entry.name, self.entry, shape, snapshot, hidden=frozenset({PIECE}))

    def _shape(self) -> StructType:
        return types.from_json(self.entry.definition["schema"])

    def _staging(self, made: list[str]) -> str:
        made.append(self.context.log.new_staging())
        return made[-1]

    def _exchange(
        self, change: TableChange, pieces: Mapping[str, Piece], staging: list[str]
    ) -> tuple[dict[str, int], int, int]:
        """Put the rows of new pieces in the place of those of old ones. Gives the numbers of all pieces, the bytes that were
        read and the number of pieces that came or went."""
        before = self.known.pieces
        same = {name for name, piece in pieces.items() if name in before and before[name].digest == piece.digest}
        gone = sorted(self.known.numbers[name] for name in before if name not in same)
        first = int(self.entry.facts[ORIGIN]["next"])
        new = {name: number for number, name in enumerate(sorted(pieces.keys() - same), first)}
        for start in range(0, len(gone), MOST_IN_CONDITION):
            numbers = ", ".join(map(str, gone[start : start + MOST_IN_CONDITION]))
            delete_matching(self.context, change, f"{PIECE} IN ({numbers})", {})
        read = 0
        if new:
            folder = self._staging(staging)
            read = self.origin.write(self.position, self._shape(), new, folder)
            if locations.exists(folder):
                change.written.append(folder)
        kept = {name: self.known.numbers[name] for name in same}
        return kept | new, read, len(gone) + len(new)

    def _compare(self, change: TableChange, staging: list[str]) -> int:
        """Find out how the rows of the source differ from those of the copy."""
        folder, differing = self._staging(staging), self._staging(staging)
        read = self.origin.write(self.position, self._shape(), None, folder)
        with self.context.spark.workspace("large") as workspace:
            names = change.stored.names
            now = read_parquet(workspace.session, locations.parquet_files(folder), change.stored)
            before = snapshot_frame(workspace, change.snapshot, names)
            signed = weigh(now, 1).unionAll(weigh(before, -1))
            consolidate(signed, names).write.parquet(differing)
            counted = types.with_weight(change.stored)
            paths = locations.parquet_files(differing)
            if sum(locations.parquet_footer(path).num_rows for path in paths) <= write_change.MOST_ON_DRIVER:
                rows = types.conform(files.read_folder(differing), counted) if paths else None
                if rows is not None and rows.num_rows:
                    change.pieces.append(rows)
                return read
            columns, rows_of = list(map(quote, names)), read_parquet(workspace.session, paths, counted)
            gone = repeat(rows_of.where(f"{N} < 0"), *columns)
            delete_frame(self.context, change, gone, self._staging(staging))
            insert_frame(change, repeat(rows_of.where(f"{N} > 0"), *columns), self._staging(staging))
        return read

    def _put(
        self, commit: Commit, change: TableChange, numbers: Mapping[str, int] | None, cost: Mapping[str, Any]
    ) -> None:
        done = write_change.write_change(change) if change.changed else None
        if done is None and numbers is None:
            return
        entry, said = done or (self.entry, {"inserted": 0, "deleted": 0})
        parts = {**self.entry.parts, **entry.parts}
        stood = self.entry.facts[ORIGIN]
        if numbers is not None and self.position.pieces is not None:
            if self.position.pieces != self.known.pieces:
                parts[PIECES] = self._list(Known(self.position.pieces, numbers).to_table())
            stood = {**stood, "next": max([int(stood["next"]) - 1, *numbers.values()]) + 1}
        last = {**cost, "seconds": round(time.perf_counter() - self.begun, 4)}
        facts = {**entry.facts, ORIGIN: {**stood, **stands_at(self.position), "last": last}}
        again = self.position.identity != self.entry.facts[ORIGIN]["identity"]
        reason = {"reason": f"the source is another one: {MADE_AGAIN}"} if again else {}
        commit.put({entry.name: replace(entry, parts=parts, facts=facts)}, {entry.name: {**said, **reason, **last}})

    def _list(self, table: pa.Table) -> Part:
        """The list of pieces, written whole: it is small beside the pieces."""
        part = self.entry.parts[PIECES]
        before = self.context.log.snapshot(part)
        return part.advanced(files.write(before.folder, table), before.files)
