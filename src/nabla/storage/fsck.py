"""A lake looked through from end to end: its logs, its files and their contents, and what its catalog says of them.

Nothing is taken on trust and nothing has to be readable. Damage that the lake itself knows how to undo is repaired on request:
the commits of tables are in the catalogs that promised them, and checkpoints only sum up commits. Files that are taken out of
a log are kept beside it, under a name that begins with `damaged-`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial

import pyarrow.parquet as pq

from nabla.errors import NablaError
from nabla.storage import bags, boundary, changes, deltalog, locations
from nabla.storage.altered_table import added_columns, eras_after, eras_of
from nabla.storage.boundary import LOG
from nabla.storage.catalog import Entry, LakeState, Part
from nabla.storage.changes import ChangeFile
from nabla.storage.copied_table import PIECE
from nabla.storage.files import DataFile
from nabla.storage.lake_checks import not_a_lake
from nabla.storage.lakelog import LakeLog
from nabla.storage.machine import current, reading
from nabla.storage.repair import ASIDE, Repairs, set_aside
from nabla.storage.table import Snapshot, StoredTable


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong: where, what, and how it can be mended. `repaired` says that it was."""

    place: str
    what: str
    remedy: str
    repaired: bool = False

    def __str__(self) -> str:
        return f"{self.what} ({self.place}). {'Repaired: ' if self.repaired else ''}{self.remedy}"


@dataclass(frozen=True)
class Checkup:
    """The numbers of tables and files that were looked at, and the damages found."""

    tables: int
    files: int
    damages: tuple[Damage, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong (any more)."""
        return all(damage.repaired for damage in self.damages)

    def __str__(self) -> str:
        found = f"{len(self.damages)} damages" if self.damages else "no damage"
        return "\n".join([f"{self.tables} tables with {self.files} files: {found}", *map(str, self.damages)])


def examine_lake(path: str, *, repair: bool = False, quick: bool = False) -> Checkup:
    """Look through a lake, and with `repair` mend what can be mended. A `quick` look reads no rows.

    NABLA_NOT_A_LAKE where there is none.
    """
    if not LakeLog.exists(path):
        raise not_a_lake(locations.named(path))
    boundary.check_lake(locations.named(path))
    return _Examination(path, repair, quick).run()


class _Examination:
    def __init__(self, path: str, repair: bool, quick: bool) -> None:
        self._lake = LakeLog(path)
        self._log = StoredTable(os.path.join(self._lake.path, LOG))
        self._repairs = Repairs(self._lake, self._log)
        self._repair, self._quick = repair, quick
        self._tables = self._files = 0

    def run(self) -> Checkup:
        found = list(self._check_lake_log())
        try:
            state = self._lake.state()
        except NablaError as error:
            return Checkup(0, 0, (*found, Damage(error.place, error.message, error.remedy)))
        for entry in state.everything.values():
            for part in entry.parts.values():
                found += self._check_part(entry, part, state)
        return Checkup(self._tables, self._files, tuple(found))

    def _check_lake_log(self) -> Iterator[Damage]:
        folder, latest = self._log.folder, self._log.latest()
        yield from self._check_checkpoints(folder)
        for version in _versions(folder, latest):
            what = _damage_of(folder, version)
            if what is None:
                continue
            place = deltalog.commit_path(folder, version)
            if version < latest:
                yield Damage(place, what, "Only the history is concerned: the lake works without it.")
            elif self._repairs.evidence(version) is not None:
                remedy = "The commit is made again from its catalog, which commits of tables refer to."
                yield self._mended(Damage(place, what, remedy), partial(self._repairs.remake_lake_commit, latest))
            else:
                remedy = "The lake goes back to the version before: what this commit changed is not known any more."
                yield self._mended(Damage(place, what, remedy), partial(set_aside, place))

    def _check_part(self, entry: Entry, part: Part, state: LakeState) -> Iterator[Damage]:
        if locations.is_absolute(part.path):  # registered: its writer sees to it, and the lake only reads
            yield from self._check_version(entry, self._lake.table(part.path), None)
            return
        folder = self._lake.folder(part)
        try:
            boundary.check_table(folder, self._lake.path)
            latest = StoredTable(folder).latest()
        except NablaError as error:
            yield Damage(folder, error.message, error.remedy)
            return
        damages = list(self._check_commits(folder, part, max(latest, part.version)))
        yield from damages
        yield from self._check_checkpoints(folder)
        if latest > part.version:
            yield self._check_later(folder, part, latest, state)
        if all(damage.repaired for damage in damages):
            yield from self._check_version(entry, self._lake.table(part), part.version)

    def _check_commits(self, folder: str, part: Part, latest: int) -> Iterator[Damage]:
        for version in _versions(folder, latest):
            what = _damage_of(folder, version)
            if what is None:
                continue
            place = deltalog.commit_path(folder, version)
            if self._repairs.promise(part.path, version) is None:
                yield Damage(place, what, "No catalog of the lake knows it any more: restore it from a copy.")
            else:
                remedy = "The commit is made again from the catalog that promised it."
                yield self._mended(
                    Damage(place, what, remedy), partial(self._repairs.remake_commit, part.path, version)
                )

    def _check_checkpoints(self, folder: str) -> Iterator[Damage]:
        log = deltalog.log_folder(folder)
        for name in sorted(locations.names(log)):
            if name.startswith(ASIDE) or not name.endswith(".checkpoint.parquet"):
                continue
            path = os.path.join(log, name)
            try:
                locations.read_parquet(path)
            except NablaError as error:
                if deltalog.is_summed_up_elsewhere(folder, int(name[:20])):
                    remedy = "The checkpoint is set aside: it only sums up commits."
                    yield self._mended(Damage(path, error.message, remedy), partial(_drop_checkpoint, path))
                else:
                    yield Damage(
                        path, error.message, "The commits that it sums up were trimmed: restore it from a copy."
                    )

    def _check_later(self, folder: str, part: Part, latest: int, state: LakeState) -> Damage:
        place = deltalog.commit_path(folder, part.version + 1)
        what = f"the table has version {latest}, the lake knows {part.version}"
        if not self._repairs.is_lost(folder, part.version + 1, state.version):
            return Damage(place, what, "Something else wrote to the table. Delete this commit and later ones.")
        remedy = "They belong to a commit of the lake that was lost, and are set aside."
        return self._mended(Damage(place, what, remedy), partial(self._repairs.drop_commits, folder, part.version + 1))

    def _check_version(self, entry: Entry, table: StoredTable, version: int | None) -> Iterator[Damage]:
        """The files of the version that counts, the newest one of a registered table."""
        try:
            snapshot = table.snapshot(version)
        except NablaError as error:
            yield Damage(error.place, f'"{entry.name}": {error.message}', error.remedy)
            return
        self._tables += 1
        for file in snapshot.files:
            self._files += 1
            if (what := self._damage_of_data(entry, snapshot, file, table.closed)) is not None:
                yield Damage(snapshot.path(file), f'"{entry.name}": {what}', _remedy_for(entry))
        if table.closed:
            yield from self._check_changes(entry, table, snapshot)

    def _damage_of_data(self, entry: Entry, snapshot: Snapshot, file: DataFile, own: bool) -> str | None:
        """Damage of a data file. Whoever writes a registered table may have other columns in files than in the table, and
        files of an altered table may have columns of an earlier time, and lack those that were added."""
        path = snapshot.path(file)
        names = {stored for name, stored in snapshot.stored.items() if name not in file.partition}
        added = added_columns(snapshot.schema_json)
        may_have = added | {name for era in eras_of(entry.definition) for name in era.stored}
        what = self._damage_of_rows(path, file.bytes, file.written, names - added if own else None, may_have)
        if what is None and file.hidden is not None:
            try:
                file.hidden.marked(snapshot.folder)
            except NablaError as error:
                return error.message
        return what

    def _check_changes(self, entry: Entry, table: StoredTable, snapshot: Snapshot) -> Iterator[Damage]:
        """The changes that commits recorded, as far as a vacuum has left them."""
        for commit in table.commits(deltalog.oldest_version(table.folder) - 1, snapshot.version):
            recorded = commit.metadata.get(changes.KEY, ()) if commit is not None else ()
            eras = eras_after(entry.definition, commit.version) if commit is not None else ()
            names = {*(eras[0].stored if eras else snapshot.stored.values()), bags.N} - {PIECE}
            for file in map(ChangeFile.from_json, recorded):
                path = os.path.join(table.folder, file.path)
                what = self._damage_of_rows(path, None, file.rows, names) if locations.exists(path) else None
                if what is not None:
                    remedy = "The record is set aside: views that need it are recomputed."
                    yield self._mended(Damage(path, f'"{entry.name}": {what}', remedy), partial(set_aside, path))

    def _damage_of_rows(
        self,
        path: str,
        size: int | None,
        rows: int,
        names: Collection[str] | None,
        may_have: Collection[str] = frozenset(),
    ) -> str | None:
        """Damage of a file that should have so many bytes, if that is known, and rows, and columns of these names. Others that
        it may have do no harm."""
        try:
            if size is not None and locations.size(path) != size:
                return f"the file has {locations.size(path)} bytes instead of {size}"
            with locations.parquet_file(path) as parquet:
                found, held = set(parquet.schema_arrow.names), parquet.metadata.num_rows
            if held != rows:
                return f"the file has {held} rows instead of {rows}"
            other = set(names) - found | found - {*names, *may_have} if names is not None else None
            if other:
                return f"the file has other columns: {', '.join(sorted(map(repr, other)))}"
            if not self._quick:
                _read_pages(path)
        except NablaError as error:
            return error.message
        return None

    def _mended(self, damage: Damage, mend: Callable[[], None]) -> Damage:
        if not self._repair:
            return replace(damage, remedy=f"With --repair: {damage.remedy}")
        mend()
        return replace(damage, repaired=True)


def _versions(folder: str, latest: int) -> range:
    """The versions whose commits should be there: the log of a table of others may have been cleaned up to a checkpoint."""
    return range(deltalog.oldest_version(folder), latest + 1)


def _damage_of(folder: str, version: int) -> str | None:
    if not locations.exists(deltalog.commit_path(folder, version)):
        return f"version {version} of the log is missing"
    try:
        deltalog.check_whole(folder, [version])
        deltalog.read_commit(folder, version)
    except NablaError as error:
        return error.message.removeprefix("damaged: ")
    return None


def _drop_checkpoint(path: str) -> None:
    pointer = os.path.join(os.path.dirname(path), "_last_checkpoint")
    if locations.exists(pointer):
        locations.remove(pointer)
    set_aside(path)


def _read_pages(path: str) -> None:
    """Read all rows, a group of them at a time, and compare the checksums that Nabla writes."""
    if locations.is_url(path):
        locations.read_parquet(path)
        return
    with reading(path):
        current().read(path, _verify_pages)


def _verify_pages(path: str) -> None:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        for _ in file.iter_batches():
            pass


def _remedy_for(entry: Entry) -> str:
    if entry.kind in ("table", "registered"):
        return "Restore the file from a copy, or revert the table to a version without it."
    return "Restore the file from a copy, or build the view again."
