"""The functions that Python files of a project call: `pyspark.pipelines`, and the module `dlt` with its older names.

They are there while a project is read and run, for every version of PySpark alike, and write into the project's registry.
"""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import pyspark.pipelines
import pyspark.pipelines.api
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from nabla.frontends.pipelines.elements import Action, ChangeCapture, ColumnLike, Expectation, Query

Schema = str | StructType | None
Decorator = Callable[[Query], Query]
_EXPECTED = "__nabla_expectations__"


@dataclass(frozen=True)
class Place:
    """The line of a project that defines something."""

    file: Path
    line: int


@dataclass(frozen=True)
class Described:
    """What datasets and flows have in common. `kind` is that of `Element`."""

    name: str
    kind: str
    place: Place
    comment: str | None = None
    schema: Schema = None
    settings: Mapping[str, str] | None = None
    cluster_by: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, str] | None = None
    handler: Callable[[DataFrame, int], Any] | None = None


class Registrar(Protocol):
    """The registry as these functions need it."""

    def define(self, described: Described, query: Query | None, expectations: Sequence[Expectation]) -> None: ...

    def define_flow(
        self,
        name: str,
        target: str,
        query: Query | None,
        place: Place,
        settings: Mapping[str, str],
        once: bool = False,
        capture: ChangeCapture | None = None,
    ) -> None: ...

    def read(self, name: str, streaming: bool) -> DataFrame: ...


def expectations_of(query: object) -> tuple[Expectation, ...]:
    """The expectations that decorators have noted on a function, the one that is written first at the beginning."""
    return tuple(reversed(getattr(query, _EXPECTED, ())))


@contextmanager
def offered(registry: Registrar) -> Iterator[None]:
    """Let Python files find the functions, with `registry` behind them."""
    functions = _Functions(registry).named()
    homes: list[types.ModuleType] = [pyspark.pipelines, pyspark.pipelines.api]
    before = [(home, name, home.__dict__.get(name)) for home in homes for name in functions]
    dlt = sys.modules.get("dlt")
    shim = types.ModuleType("dlt", "The functions of pyspark.pipelines under the name that they had on Databricks.")
    for home in (*homes, shim):
        home.__dict__.update(functions)
    sys.modules["dlt"] = shim
    try:
        yield
    finally:
        for home, name, value in before:
            if value is None:
                home.__dict__.pop(name, None)
            else:
                home.__dict__[name] = value
        if dlt is None:
            sys.modules.pop("dlt", None)
        else:
            sys.modules["dlt"] = dlt


class _Functions:
    """The functions over one registry."""

    def __init__(self, registry: Registrar) -> None:
        self._registry = registry

    def named(self) -> dict[str, Any]:
        names = {
            "table": self.table,
            "create_table": self.table,
            "materialized_view": self.materialized_view,
            "temporary_view": self.temporary_view,
            "view": self.temporary_view,
            "create_streaming_table": self.create_streaming_table,
            "create_streaming_live_table": self.create_streaming_table,
            "create_target_table": self.create_streaming_table,
            "append_flow": self.append_flow,
            "create_sink": self.create_sink,
            "foreach_batch_sink": self.foreach_batch_sink,
            "create_auto_cdc_flow": self.create_auto_cdc_flow,
            "apply_changes": self.create_auto_cdc_flow,
            "read": lambda name: self._registry.read(name, False),
            "read_stream": lambda name: self._registry.read(name, True),
        }
        actions: tuple[tuple[str, Action], ...] = (("", "warn"), ("_or_drop", "drop"), ("_or_fail", "fail"))
        for suffix, action in actions:
            names[f"expect{suffix}"] = _expect_one(action)
            names[f"expect_all{suffix}"] = _expect_all(action)
        return names

    def table(self, query_function: Query | None = None, **options: Any) -> Any:
        return self._dataset("streaming_table", query_function, options)

    def materialized_view(self, query_function: Query | None = None, **options: Any) -> Any:
        return self._dataset("materialized_view", query_function, options)

    def temporary_view(self, query_function: Query | None = None, **options: Any) -> Any:
        return self._dataset("temporary_view", query_function, options)

    def _dataset(self, kind: str, query: Query | None, options: dict[str, Any]) -> Any:
        place = _caller(3)
        known = VIEW_OPTIONS if kind == "temporary_view" else TABLE_OPTIONS
        _check_options(kind, options, known)
        if kind == "streaming_table" and options.get("temporary"):
            kind = "temporary_view"

        def register(function: Query) -> Query:
            if not callable(function):
                raise TypeError(f"{kind} decorates a function, not {type(function).__name__}")
            described = _described(options.get("name") or function.__name__, kind, place, options)
            self._registry.define(described, function, ())
            return function

        return register if query is None else register(query)

    def create_streaming_table(self, name: str, **options: Any) -> None:
        place = _caller(2)
        expected: list[Expectation] = []
        for key, action in (("expect_all", "warn"), ("expect_all_or_drop", "drop"), ("expect_all_or_fail", "fail")):
            for expectation, condition in (options.pop(key, None) or {}).items():
                expected.append(Expectation(expectation, condition, cast(Action, action)))
        _check_options("create_streaming_table", options, TABLE_OPTIONS)
        self._registry.define(_described(_text("name", name), "streaming_table", place, options), None, expected)

    def append_flow(
        self,
        *,
        target: str,
        name: str | None = None,
        spark_conf: Mapping[str, str] | None = None,
        once: bool = False,
        comment: str | None = None,
    ) -> Decorator:
        place = _caller(2)

        def register(function: Query) -> Query:
            flow = name or function.__name__
            self._registry.define_flow(flow, _text("target", target), function, place, spark_conf or {}, once)
            return function

        return register

    def create_sink(self, name: str, format: str, options: Mapping[str, str] | None = None) -> None:
        given = {key: str(value) for key, value in (options or {}).items()}
        sink = Described(_text("name", name), "sink", _caller(2), format=_text("format", format), options=given)
        self._registry.define(sink, None, ())

    def foreach_batch_sink(self, function: Any = None, *, name: str | None = None) -> Any:
        place = _caller(2)

        def register(handler: Callable[[DataFrame, int], Any]) -> Callable[[DataFrame, int], Any]:
            sink = Described(name or handler.__name__, "sink", place, format="foreachBatch", handler=handler)
            self._registry.define(sink, None, ())
            return handler

        return register if function is None else register(function)

    def create_auto_cdc_flow(
        self,
        target: str,
        source: str,
        keys: Sequence[ColumnLike],
        sequence_by: ColumnLike,
        apply_as_deletes: ColumnLike | None = None,
        column_list: Sequence[ColumnLike] | None = None,
        except_column_list: Sequence[ColumnLike] | None = None,
        stored_as_scd_type: int | str | None = None,
        name: str | None = None,
        *,
        apply_as_truncates: ColumnLike | None = None,
        track_history_column_list: Sequence[ColumnLike] | None = None,
        track_history_except_column_list: Sequence[ColumnLike] | None = None,
        ignore_null_updates: bool = False,
        spark_conf: Mapping[str, str] | None = None,
        once: bool = False,
    ) -> None:
        if ignore_null_updates:
            raise ValueError("ignore_null_updates is not supported: fill NULLs in the source of the flow instead")
        capture = ChangeCapture(
            keys=tuple(keys),
            sequence_by=sequence_by,
            source=_text("source", source),
            deletes=apply_as_deletes,
            truncates=apply_as_truncates,
            columns=tuple(column_list or ()),
            except_columns=tuple(except_column_list or ()),
            scd_type=scd_type(stored_as_scd_type),
            track=tuple(track_history_column_list or ()),
            track_except=tuple(track_history_except_column_list or ()),
        )
        check_capture(capture)
        self._registry.define_flow(
            name or target, _text("target", target), None, _caller(2), spark_conf or {}, once, capture
        )


TABLE_OPTIONS = frozenset(
    {
        "name",
        "comment",
        "spark_conf",
        "table_properties",
        "partition_cols",
        "cluster_by",
        "cluster_by_auto",
        "schema",
        "format",
        "path",
        "temporary",
        "private",
    }
)
VIEW_OPTIONS = frozenset({"name", "comment", "spark_conf"})


def _check_options(what: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = sorted(set(options) - known)
    if unknown:
        raise TypeError(f'"{unknown[0]}" is no option of {what}; it has {", ".join(sorted(known))}')
    for key in ("name", "comment", "format"):
        if options.get(key) is not None:
            _text(key, options[key])
    for key in ("partition_cols", "cluster_by"):
        value = options.get(key)
        if value is not None and not (isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)):
            raise TypeError(f"{key} is a list of names of columns")
    for key in ("table_properties", "spark_conf"):
        if options.get(key) is not None and not isinstance(options[key], Mapping):
            raise TypeError(f"{key} is a dict")


def _described(name: str, kind: str, place: Place, options: Mapping[str, Any]) -> Described:
    clusters = options.get("cluster_by") or options.get("partition_cols") or ()
    return Described(
        name,
        kind,
        place,
        comment=options.get("comment"),
        schema=options.get("schema"),
        settings=options.get("spark_conf"),
        cluster_by=tuple(clusters),
        format=options.get("format"),
    )


def scd_type(value: int | str | None) -> Any:
    """The type of history, 1 where none is given."""
    if value is None:
        return 1
    if str(value) not in ("1", "2"):
        raise ValueError(f"stored_as_scd_type is {value!r}; it is 1 or 2")
    return int(value)


def check_capture(capture: ChangeCapture) -> None:
    """Refuse arguments that contradict each other."""
    if not capture.keys:
        raise ValueError("keys names no column")
    if capture.columns and capture.except_columns:
        raise ValueError("column_list and except_column_list exclude each other")
    if capture.track and capture.track_except:
        raise ValueError("track_history_column_list and track_history_except_column_list exclude each other")
    if capture.scd_type != 2 and (capture.track or capture.track_except):
        raise ValueError("history is tracked with stored_as_scd_type=2 only")
    if capture.scd_type == 2 and capture.truncates is not None:
        raise ValueError("apply_as_truncates is for stored_as_scd_type=1 only")


def _expect_one(action: Action) -> Callable[[str, str], Decorator]:
    def expect(name: str, inv: str) -> Decorator:
        return _noting([Expectation(_text("name", name), _text("condition", inv), action)])

    return expect


def _expect_all(action: Action) -> Callable[[Mapping[str, str]], Decorator]:
    def expect_all(expectations: Mapping[str, str]) -> Decorator:
        return _noting([Expectation(name, condition, action) for name, condition in expectations.items()])

    return expect_all


def _noting(expectations: Sequence[Expectation]) -> Decorator:
    def note(function: Query) -> Query:
        function.__dict__.setdefault(_EXPECTED, []).extend(reversed(expectations))
        return function

    return note


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, not {type(value).__name__}")
    return value


def _caller(depth: int) -> Place:
    """The line that called the function `depth` frames up."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None else None
    if frame is None:
        return Place(Path("?"), 1)
    return Place(Path(frame.f_code.co_filename), frame.f_lineno)
