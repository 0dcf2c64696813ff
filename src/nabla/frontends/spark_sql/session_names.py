"""Stored tables under their names in a Spark session: as new as they are when a query is analyzed, and not to be written to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from nabla.errors import NablaError
from nabla.frontends.spark_sql.jvm import compile_java, java_list


@dataclass(frozen=True)
class NamedTable:
    """A table for a session. `mark` tells its content from any other that the name may stand for."""

    mark: str
    frame: Callable[[], DataFrame]


class NamedTables(Protocol):
    """A lake as a session needs it: its tables and views by name, each with the error to raise where it cannot be read."""

    @property
    def path(self) -> str: ...

    @property
    def folder(self) -> str:
        """The folder of the lake, which all of its environments share."""

    def current(self) -> Mapping[str, NamedTable | NablaError]: ...


ASK_OF_PARTS = "parts"
"""The answer for a query that cannot be read, though its parts may be."""

Answering = Callable[[DataFrame, Mapping[str, str]], DataFrame | str | None]
"""Gives the frame to read in the place of a query over tables with these marks, ASK_OF_PARTS, or None."""


class SessionNames:
    """The names of one session: those of every lake that was shown in it, as it is or through an environment. Where two lakes
    have the same name, it belongs to the lake that was shown last, and goes with it.

    A rule of the session's analyzer calls `renew` before a query looks its names up, so it does not matter who holds the
    session or who has committed in the meantime. Several threads may use one.
    """

    def __init__(self, session: SparkSession) -> None:
        self._gateway = cast(Any, session.sparkContext._gateway)
        ensure_callback_server_started(self._gateway)  # type: ignore[no-untyped-call]
        self._lock = threading.RLock()
        self._lakes: dict[str, NamedTables] = {}
        self._owners: dict[str, str] = {}
        self._refused: dict[str, tuple[str, ...]] = {}
        self._session = session
        self._answering: dict[str, Answering] = {}
        compiled = _compiled(self._gateway)
        arguments = self._gateway.new_array(self._gateway.jvm.java.lang.Object, 0)
        self._java = compiled.getConstructors()[0].newInstance(arguments)
        self._java.install(session._jsparkSession, _Renewal(self))

    def show(self, lake: NamedTables) -> None:
        """Show a lake's names from now on. Lakes that have lost all of their names to others are forgotten."""
        with self._lock:
            self._forget_others_of(lake)
            self._lakes.pop(lake.path, None)
            self._lakes[lake.path] = lake
            self.renew()
            marks = self._marks()
            self._lakes = {path: own for path, own in self._lakes.items() if own is lake or _names_of(path, marks)}

    def _forget_others_of(self, lake: NamedTables) -> None:
        """A lake is shown as it is or through one environment: a name that this one lacks must not mean what others have."""
        others = {path for path, own in self._lakes.items() if own.folder == lake.folder and path != lake.path}
        self._lakes = {path: own for path, own in self._lakes.items() if path not in others}
        self._owners = {name: path for name, path in self._owners.items() if path not in others}

    def forget(self) -> None:
        """Show no lake any more, until one is shown again."""
        with self._lock:
            self._lakes.clear()
            self._owners.clear()
            self.renew()

    def renew(self) -> None:
        """Bring all names to the newest versions."""
        with self._lock:
            marks = self._marks()
            wanted = self._wanted(marks)
            refused: dict[str, NablaError] = {}
            for name in marks.keys() - {name for name, table in wanted if isinstance(table, NamedTable)}:
                self._java.drop(name)
            for name, table in wanted:
                error = table if isinstance(table, NablaError) else self._show(name, table, marks.get(name))
                if error is not None:
                    refused[name] = error
                    self._java.drop(name)
            errors = {name: _parts(error) for name, error in refused.items()}
            if errors != self._refused:
                self._java.refuse(self._map(errors))
                self._refused = errors

    # ------------------------------------------------------------ queries

    def answer_with(self, lake: str, answering: Answering | None) -> None:
        """Let a lake answer the queries of this session over its names, whoever asks them; or no longer."""
        with self._lock:
            if answering is not None:
                self._answering[lake] = answering
            elif self._answering.pop(lake, None) is None:
                return
            self._java.answerWith(_Answers(self) if self._answering else None)

    def answer(self, plan: Any, text: str) -> Any:
        """The plan to run in the place of another one, which reads tables with these marks."""
        parts = text.split("\0")[:-1]
        marks = dict(zip(parts[::2], parts[1::2], strict=True))
        for lake, answering in list(self._answering.items()):
            if all(shown.startswith(mark(lake, "")) for shown in marks.values()):
                dataset = cast(Any, self._gateway.jvm).org.apache.spark.sql.classic.Dataset
                found = answering(DataFrame(dataset.ofRows(self._session._jsparkSession, plan), self._session), marks)
                return found._jdf.queryExecution().analyzed() if isinstance(found, DataFrame) else found
        return None

    def keep_plain(self, frame: DataFrame) -> None:
        """Keep a frame from being answered, and whatever is made from it."""
        if self._answering:
            self._java.keepPlain(frame._jdf)

    def outdated(self, frame: DataFrame, names: Collection[str]) -> str | None:
        """One of these names that a frame reads with another content than the name stands for now."""
        found = self._java.outdated(frame._jdf.queryExecution().analyzed(), "\0".join(n.lower() for n in names))
        return None if found is None else str(found)

    # ------------------------------------------------------------ names

    def _show(self, name: str, table: NamedTable, shown: str | None) -> NablaError | None:
        """Make a name stand for a table unless it does, or give the error that queries of this name are to raise. Whatever is
        wrong with one table must not keep the others away."""
        if shown == table.mark:
            return None
        try:
            self._java.show(name, table.frame()._jdf, table.mark)
        except NablaError as error:
            return error
        except (PySparkException, Py4JError) as error:
            return NablaError("NABLA_QUERY_FAILED", f"Spark cannot read it: {_first_line(error)}", place=f'"{name}"')
        return None

    def _wanted(self, marks: Mapping[str, str]) -> list[tuple[str, NamedTable | NablaError]]:
        """The names and tables of all lakes, without names that belong to another lake. Case does not tell names apart."""
        wanted: dict[str, tuple[str, NamedTable | NablaError]] = {}
        last = next(reversed(self._lakes), None)
        for path, lake in self._lakes.items():
            tables: Mapping[str, NamedTable | NablaError]
            try:
                tables = lake.current()
            except NablaError as error:
                tables = dict.fromkeys(_names_of(path, marks), error)
            for name, table in tables.items():
                key = name.lower()
                owner = path if path == last else self._owners.get(key, path)
                self._owners[key] = owner
                if owner == path:
                    wanted[key] = (name, table)
        return list(wanted.values())

    def _marks(self) -> dict[str, str]:
        """The mark of each name that stands for a table of a lake."""
        texts = str(self._java.marks()).split("\0")[:-1]
        return dict(zip(texts[::2], texts[1::2], strict=True))

    def _map(self, errors: Mapping[str, tuple[str, ...]]) -> Any:
        found = self._gateway.jvm.java.util.HashMap()
        for name, parts in errors.items():
            found.put(name, java_list(self._gateway.jvm, parts))
        return found


class _Renewal:
    """The callback of the analyzer's rule."""

    def __init__(self, names: SessionNames) -> None:
        self._names = names

    def run(self) -> None:
        self._names.renew()

    class Java:
        implements: tuple[str, ...] = ("java.lang.Runnable",)


class _Answers:
    """The callback of the rule that answers queries."""

    def __init__(self, names: SessionNames) -> None:
        self._names = names

    def apply(self, plan: Any, marks: str) -> Any:
        return self._names.answer(plan, marks)

    class Java:
        implements: tuple[str, ...] = ("java.util.function.BiFunction",)


def mark(lake: str, content: str) -> str:
    """The mark of a content that belongs to a lake."""
    return f"{lake}|{content}"


def _names_of(lake: str, marks: Mapping[str, str]) -> list[str]:
    return [name for name, marked in marks.items() if marked.startswith(mark(lake, ""))]


def _first_line(error: Exception) -> str:
    """What a failure in Java is about, without its stack."""
    cause = getattr(error, "java_exception", None)
    return str(error if cause is None else cause).splitlines()[0].rstrip(".")


def _parts(error: NablaError) -> tuple[str, ...]:
    return error.code, error.message, error.place, error.remedy


_CLASSES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def _compiled(gateway: Any) -> Any:
    """The class of the rule, one in a JVM: py4j takes classes of the same name for the same class."""
    if gateway not in _CLASSES:
        _CLASSES[gateway] = compile_java(gateway.jvm, ("AnsweredQueries", "SessionNames"))
    return _CLASSES[gateway]


_OF_SESSION: dict[str, SessionNames] = {}
_LOCK = threading.Lock()


def key_of(session: SparkSession) -> str:
    """What tells one session from others, whoever holds it."""
    return str(session._jsparkSession.sessionUUID())


def names_of(session: SparkSession) -> SessionNames:
    """The names of a session, the same object for everybody who holds the session."""
    key = key_of(session)
    with _LOCK:
        if key not in _OF_SESSION:
            _OF_SESSION[key] = SessionNames(session)
        return _OF_SESSION[key]
