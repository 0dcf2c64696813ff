"""The tables and views of a lake as Spark sessions know them: each at its newest version, under its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.engine.sources import user_frame
from nabla.engine.spark.frames import Workspace
from nabla.errors import NablaError
from nabla.frontends.spark_sql.session_names import NamedTable, mark
from nabla.lake.objects.sources import columns_of, current_version, table_of
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.lakelog import LakeLog


class LakeTables:
    """The tables and views of a lake, for the sessions that show them."""

    def __init__(self, log: LakeLog, home: Workspace) -> None:
        self._log = log
        self._home = home
        self._pinned: LakeState | None = None
        self._planned: Mapping[str, StructType] = {}

    @property
    def path(self) -> str:
        return self._log.shown_as

    @property
    def folder(self) -> str:
        return self._log.path

    @contextmanager
    def at(self, state: LakeState) -> Iterator[None]:
        """Show a state that the lake is to have instead of the newest one."""
        self._pinned = state
        try:
            yield
        finally:
            self._pinned = None

    @contextmanager
    def planning(self, planned: Mapping[str, StructType]) -> Iterator[None]:
        """Show tables that there are not yet, or not in this form, too: as empty ones with these columns. The mapping may
        grow meanwhile."""
        self._planned = planned
        try:
            yield
        finally:
            self._planned = {}

    def current(self) -> Mapping[str, NamedTable | NablaError]:
        """All tables and views by name. A registered table that cannot be read is an error; the others are still there."""
        state = self._pinned or self._log.state()
        there = {name: self._named(entry) for name, entry in state.entries.items() if name not in self._planned}
        return there | {name: self._empty(name, columns) for name, columns in self._planned.items()}

    def _empty(self, name: str, columns: StructType) -> NamedTable:
        planned = mark(self.path, f"planned {name} {columns.json()}")
        return NamedTable(planned, lambda: self._home.session.createDataFrame([], columns))

    def marks(self, state: LakeState, names: Collection[str]) -> Mapping[str, str]:
        """The marks of tables and views, whose names are in lower case, in a state. None while another state is shown."""
        if self._pinned is not None:
            return {}
        named = {e.name.lower(): self._named(e) for e in state.entries.values() if e.name.lower() in names}
        return {name: found.mark for name, found in named.items() if isinstance(found, NamedTable)}

    def _named(self, entry: Entry) -> NamedTable | NablaError:
        table, columns = table_of(self._log, entry), columns_of(entry)
        try:
            version = current_version(self._log, entry)
        except NablaError as error:
            return error

        def frame() -> DataFrame:
            return user_frame(self._home, table.snapshot(version), columns)

        return NamedTable(mark(self.path, f"{table.folder}@{table.identity(version)}|{columns}"), frame)
