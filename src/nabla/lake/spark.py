"""A lake's side of Spark: its session and those of the engine, workspaces, and the names that users query by."""

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
from nabla.planner.steps import Size
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog

_KEPT = 500
"""Stored tables that stay registered between refreshes, for each size of query."""


class OnSpark:
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
        """For frames that users hold: it lives as long as the lake."""
        return Workspace(self.session, self._log.new_staging())

    def new_engine(self, size: Size) -> SparkSession:
        """A session of its own."""
        session = engine_session(self.session, size)
        for function in self._functions:
            function.register(session)
        return session

    def engine(self, size: Size) -> SparkSession:
        with self._lock:
            if size not in self._engines:
                self._engines[size] = self.new_engine(size)
            return self._engines[size]

    def teach(self, functions: Iterable[PythonFunction]) -> None:
        """Lets the sessions of the engine call Python functions; those that are yet to come learn them when they do."""
        with self._lock:
            for function in functions:
                if function not in self._functions:
                    for session in self._engines.values():
                        function.register(session)
                    self._functions.append(function)

    def workspace(self, size: Size) -> Workspace:
        """A new one, for a refresh or a build."""
        return Workspace(self.engine(size), self._log.new_staging(), size)

    def shared(self, size: Size) -> Workspace:
        """Where stored tables stay registered between refreshes."""
        session = self.engine(size)
        with self._lock:
            if size not in self._shared:
                self._shared[size] = Workspace(session, self._log.new_staging(), size, most=_KEPT)
            return self._shared[size]

    def show_names(self, state: LakeState | None = None) -> None:
        """Names of the session follow the lake, or what it is to be: what is new is registered, what was dropped goes."""
        with self._lock:
            state = state or self._log.state()
            for name in [n for n in self._names if n not in state.entries]:
                self.session.catalog.dropTempView(name)
                del self._names[name]
            for name, entry in state.entries.items():
                part = entry.parts["data"]
                table = self._log.table(part)
                version = table.latest() if entry.kind == "registered" else part.version
                if self._names.get(name) != (table.folder, version):
                    frame = snapshot_frame(self.home, table.snapshot(version), columns_of(entry))
                    frame.createOrReplaceTempView(name)
                    self._names[name] = (table.folder, version)
