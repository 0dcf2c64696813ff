"""The Spark sessions of a lake: the user's, those of the engine, and the names that queries know tables and views by."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from nabla.engine.spark.frames import Sessions, Workspace, engine_session
from nabla.engine.spark.meaning import Settings, meaning
from nabla.engine.spark.session import build_session, forget_ended, has_ended, session_ended
from nabla.frontends.spark_sql.python_udfs import PythonFunction
from nabla.frontends.spark_sql.session_names import key_of, names_of
from nabla.lake.objects.named_tables import LakeTables
from nabla.lake.objects.view import View
from nabla.lake.streams.data_source import offer
from nabla.lake.trust import Trust
from nabla.planner.steps import Size
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog

_KEPT = 500
"""Stored tables that stay registered between refreshes, for each size of query."""


@dataclass(frozen=True)
class NamedSession:
    """A session that knows a lake's tables by name: the workspace of its frames, and the tables."""

    home: Workspace
    tables: LakeTables


@dataclass(frozen=True)
class _Running:
    """A session with all that lives as long as it does."""

    session: SparkSession
    home: Workspace
    tables: LakeTables
    engines: dict[tuple[Size, Settings], SparkSession] = field(default_factory=dict)
    shared: dict[tuple[Size, Settings], Workspace] = field(default_factory=dict)
    others: dict[str, NamedSession] = field(default_factory=dict)


class LakeSpark:
    """Spark is started when it is first needed: the state of a lake can be looked at without it. When it has ended, a new one
    is started by whoever needs it next."""

    def __init__(self, log: LakeLog, given: SparkSession | None, trust: Trust) -> None:
        self._log = log
        self._given = given
        self._trust = trust
        self._lock = threading.RLock()
        self._last: _Running | None = None
        self._usual: Settings = ()
        self._functions: list[PythonFunction] = []

    @property
    def session(self) -> SparkSession:
        return self._running.session

    @property
    def home(self) -> Workspace:
        """The workspace of DataFrames that users hold: it lives as long as the session."""
        return self._running.home

    @property
    def named_session(self) -> SparkSession:
        """The session, in which the lake's tables and views are known by their names."""
        self.show_names()
        return self.session

    def show_names(self) -> None:
        """Let the session know the lake's tables and views by their names."""
        self._log.state()  # a lake that cannot be read says so here
        names_of(self.session).show(self._running.tables)

    def show_names_in(self, session: SparkSession | None) -> NamedSession:
        """Let another session of the same Spark know the names, too; or the lake's own, if none is given."""
        running = self._running
        if session is None or key_of(session) == key_of(running.session):
            self.show_names()
            return NamedSession(running.home, running.tables)
        key = key_of(session)
        with self._lock:
            if key not in running.others:
                home = self.workspace_in(session)
                running.others[key] = NamedSession(home, LakeTables(self._log, home))
        names_of(session).show(running.others[key].tables)
        return running.others[key]

    @contextmanager
    def named_session_at(self, state: LakeState) -> Iterator[SparkSession]:
        """The session with names for the tables and views of a state that the lake is to have."""
        with self._running.tables.at(state):
            yield self.named_session

    @contextmanager
    def planning(self, planned: Mapping[str, StructType]) -> Iterator[None]:
        """Let the session know tables that there are not yet, too, as empty ones."""
        with self._running.tables.planning(planned):
            yield
        self.show_names()

    def settings(self, own: Settings) -> Settings:
        """The settings under which the query of a view is run: its own, or, for views that earlier versions of Nabla made
        without them, those that the user's session had when they were first needed."""
        with self._lock:
            if not own and not self._usual:
                self._usual = meaning(self.session)
            return own or self._usual

    def new_engine(self, size: Size, settings: Settings = ()) -> SparkSession:
        """A session that nobody else uses, with the settings for queries of a size, and those that say what they mean."""
        session = engine_session(self.session, size, self.settings(settings))
        for function in self._functions:
            function.register(session)
        return session

    def engine(self, size: Size, settings: Settings = ()) -> SparkSession:
        """The session that all queries of a size share which mean the same."""
        with self._lock:
            engines = self._running.engines
            if (size, settings) not in engines:
                engines[size, settings] = self.new_engine(size, settings)
            return engines[size, settings]

    def check(self, text: str) -> None:
        """Refuse a stored query that runs code, unless the lake is trusted."""
        if not self._trust.holds:
            self._trust.check(self.session, text)

    def teach(self, view: View) -> None:
        """Register the Python functions of a view with the sessions of the engine, those that are made later included."""
        if view.functions:
            self._trust.require("a Python function", f'view "{view.name}"')
        with self._lock:
            for function in view.functions:
                if function not in self._functions:
                    for session in self._running.engines.values():
                        function.register(session)
                    self._functions.append(function)

    def workspace_in(self, session: SparkSession, size: Size | None = None, most: int | None = None) -> Workspace:
        """A new workspace over a session. Texts of a lake that is not trusted are looked at before they run."""
        return Workspace(session, self._log.new_staging(), size, most, self._trust.check)

    def workspace(self, size: Size, settings: Settings = ()) -> Workspace:
        """A new workspace, for a refresh or a build."""
        return self.workspace_in(self.engine(size, settings), size)

    def separate(self, size: Size, settings: Settings = ()) -> Workspace:
        """A new one whose session nobody else uses."""
        return self.workspace_in(self.new_engine(size, settings), size)

    def shared(self, size: Size, settings: Settings = ()) -> Workspace:
        """The workspace in which stored tables stay registered between refreshes."""
        session = self.engine(size, settings)
        with self._lock:
            shared = self._running.shared
            if (size, settings) not in shared:
                shared[size, settings] = self.workspace_in(session, size, most=_KEPT)
            return shared[size, settings]

    def sessions(self, workspaces: Callable[[Size], Workspace], settings: Settings) -> Sessions:
        """The sessions for the queries of a view with these settings, most of them in `workspaces`."""
        return Sessions(workspaces, partial(self.shared, settings=settings), partial(self.separate, settings=settings))

    @property
    def _running(self) -> _Running:
        with self._lock:
            if self._last is None or has_ended(self._last.session):
                session = self._find_session()
                offer(session)
                home = self.workspace_in(session)
                self._last = _Running(session, home, LakeTables(self._log, home))
            return self._last

    def _find_session(self) -> SparkSession:
        """The user's session, or the one of this process. Nobody but users can replace what they have brought."""
        if self._given is None:
            return build_session("nabla")
        if has_ended(self._given):
            forget_ended()
            raise session_ended()
        return self._given
