"""The Spark sessions of a lake: the user's, those of the engine, and the names that queries know tables and views by."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pyspark.sql import SparkSession

from nabla._cached import cached_property
from nabla.engine.sources import snapshot_frame
from nabla.engine.spark.frames import Workspace, engine_session
from nabla.engine.spark.session import build_session
from nabla.frontends.spark_sql.python_udfs import PythonFunction
from nabla.lake.objects.names import columns_of
from nabla.lake.objects.sources import current_version
from nabla.planner.steps import Size
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog

_KEPT = 500
"""Stored tables that stay registered between refreshes, for each size of query."""


class LakeSpark:
    """Spark is started when it is first needed: the state of a lake can be looked at without it."""

    def __init__(self, log: LakeLog, given: SparkSession | None) -> None:
        self._log = log
        self._given = given
        self._lock = threading.RLock()
        self._names: dict[str, tuple[str, int]] = {}
        self._engines: dict[Size, SparkSession] = {}
        self._shared: dict[Size, Workspace] = {}
        self._functions: list[PythonFunction] = []

    @cached_property
    def session(self) -> SparkSession:
        with self._lock:
            return self._given if self._given is not None else build_session("nabla")

    @cached_property
    def home(self) -> Workspace:
        """The workspace of DataFrames that users hold: it lives as long as the lake."""
        return Workspace(self.session, self._log.new_staging())

    @property
    def named_session(self) -> SparkSession:
        """The session, in which the lake's tables and views are known by their names, as they are now."""
        self.show_names()
        return self.session

    def new_engine(self, size: Size) -> SparkSession:
        """A session that nobody else uses, with the settings for queries of a size."""
        session = engine_session(self.session, size)
        for function in self._functions:
            function.register(session)
        return session

    def engine(self, size: Size) -> SparkSession:
        """The session that all queries of a size share."""
        with self._lock:
            if size not in self._engines:
                self._engines[size] = self.new_engine(size)
            return self._engines[size]

    def teach(self, functions: Iterable[PythonFunction]) -> None:
        """Register Python functions with the sessions of the engine, those that are made later included."""
        with self._lock:
            for function in functions:
                if function not in self._functions:
                    for session in self._engines.values():
                        function.register(session)
                    self._functions.append(function)

    def workspace(self, size: Size) -> Workspace:
        """A new workspace, for a refresh or a build."""
        return Workspace(self.engine(size), self._log.new_staging(), size)

    def separate(self, size: Size) -> Workspace:
        """A new one whose session nobody else uses."""
        return Workspace(self.new_engine(size), self._log.new_staging(), size)

    def shared(self, size: Size) -> Workspace:
        """The workspace in which stored tables stay registered between refreshes."""
        session = self.engine(size)
        with self._lock:
            if size not in self._shared:
                self._shared[size] = Workspace(session, self._log.new_staging(), size, most=_KEPT)
            return self._shared[size]

    def show_names(self, state: LakeState | None = None) -> None:
        """Register the tables and views of the lake, or of a state that it is to have, as temporary views of the session, and
        drop those that are gone."""
        with self._lock:
            state = state or self._log.state()
            for name in [n for n in self._names if n not in state.entries]:
                self.session.catalog.dropTempView(name)
                del self._names[name]
            for name, entry in state.entries.items():
                table, version = self._log.table(entry.parts["data"]), current_version(self._log, entry)
                if self._names.get(name) != (table.folder, version):
                    frame = snapshot_frame(self.home, table.snapshot(version), columns_of(entry))
                    frame.createOrReplaceTempView(name)
                    self._names[name] = (table.folder, version)
