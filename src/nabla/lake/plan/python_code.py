"""Python functions of views compared by what they do: a function is the same when its lines have only moved.

A stored function is a pickle. Its parts are looked at here and never made: a class that the pickle names is not imported, and
nothing that it would call is called.
"""

from __future__ import annotations

import base64
import hashlib
import io
import pickle
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from nabla.frontends.spark_sql.python_udfs import PythonFunction

_WHERE = (10, 13, 14)
"""The places of the file's name, the first line and the table of lines among the arguments of a code object."""


@lru_cache(maxsize=1024)
def code_of(function: PythonFunction) -> str:
    """A text that two functions share if they do the same, wherever they are written."""
    try:
        found = _Reader(io.BytesIO(base64.b64decode(function.code))).load()
        code = _said(found, [])
    except Exception:  # a pickle of another kind: then only the same bytes are the same function
        code = function.code
    said = repr((code, function.type, function.kind, function.deterministic, function.python))
    return hashlib.sha256(said.encode()).hexdigest()


class _Part:
    """Something that the pickle would import, or make by a call; with all that is done to it later."""

    def __init__(self, what: str, arguments: tuple[Any, ...] = ()) -> None:
        self.what = what
        self.arguments = arguments
        self.done: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> _Part:
        if arguments and isinstance(arguments[0], _Part):
            arguments[0].done.append((self.what, *arguments[1:]))
        if self.what.endswith("._builtin_type") and arguments == ("CodeType",):
            return _Part("types.CodeType")
        if self.what == "types.CodeType":
            arguments = tuple(value for place, value in enumerate(arguments) if place not in _WHERE)
        return _Part(self.what, arguments)

    def __setstate__(self, state: Any) -> None:
        self.done.append(("state", state))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.done.append(("item", key, value))

    def append(self, value: Any) -> None:
        self.done.append(("append", value))

    def extend(self, values: Iterable[Any]) -> None:
        self.done.append(("extend", *values))


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Part(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        return _Part("persistent", (pid,))


def _said(value: Any, within: list[int]) -> str:
    """A value as a text, the same for equal values. Functions may contain themselves."""
    if id(value) in within:
        return f"up {len(within) - within.index(id(value))}"
    inner = [*within, id(value)]
    match value:
        case _Part():
            parts = ", ".join(_said(part, inner) for part in (*value.arguments, *value.done))
            return f"{value.what}({parts})"
        case dict():
            return "{" + ", ".join(sorted(f"{_said(k, inner)}: {_said(v, inner)}" for k, v in value.items())) + "}"
        case set() | frozenset():
            return "{" + ", ".join(sorted(_said(part, inner) for part in value)) + "}"
        case list() | tuple():
            return "[" + ", ".join(_said(part, inner) for part in value) + "]"
    return repr(value)
