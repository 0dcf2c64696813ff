"""Grouping by maps, and by values that have maps in them.

Spark sorts the entries of a map before it groups by it, and in compiled code takes a NULL among their values for 0 (`MapSort`,
Spark 4.2). So Nabla's own queries group by the list of the entries, in the order of their keys, and keep one of the maps.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from nabla.algebra.expressions import quote, string_literal


@dataclass(frozen=True)
class Leaf:
    """A type that is neither array nor map nor struct."""

    has_map = False


@dataclass(frozen=True)
class Array:
    element: Shape

    @property
    def has_map(self) -> bool:
        return self.element.has_map


@dataclass(frozen=True)
class Map:
    """A map. Its keys have no maps in them: Spark allows none."""

    value: Shape
    has_map = True


@dataclass(frozen=True)
class Struct:
    fields: tuple[tuple[str, Shape], ...]

    @property
    def has_map(self) -> bool:
        return any(shape.has_map for _, shape in self.fields)


Shape = Leaf | Array | Map | Struct


def group_key(sql: str, shape: Shape) -> str:
    """SQL for what rows are grouped by in the place of a value: the value itself, unless there is a map in it."""
    return _without_maps(sql, shape, (f"part{i}" for i in itertools.count()))


def _without_maps(sql: str, shape: Shape, names: Iterator[str]) -> str:
    if not shape.has_map:
        return sql
    match shape:
        case Map(value):
            entry = next(names)
            pair = f"named_struct('key', {entry}.key, 'value', {_without_maps(f'{entry}.value', value, names)})"
            return f"sort_array(transform(map_entries({sql}), {entry} -> {pair}))"
        case Array(element):
            name = next(names)
            return f"transform({sql}, {name} -> {_without_maps(name, element, names)})"
        case Struct(fields):
            parts = (
                f"{string_literal(name)}, {_without_maps(f'{sql}.{quote(name)}', part, names)}" for name, part in fields
            )
            return f"IF({sql} IS NULL, NULL, named_struct({', '.join(parts)}))"
    return sql


@lru_cache(maxsize=1024)
def shape_of(ddl: str) -> Shape:
    """The shape of a type as Spark writes it: `map<string,array<int>>`, ``STRUCT<`a b`: INT NOT NULL>``."""
    if "map" not in ddl.lower():
        return Leaf()
    return _Reader(ddl).shape()


_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[<>:,()]|[^\s<>:,()`']+)")


class _Reader:
    """Reads a type from left to right."""

    def __init__(self, ddl: str) -> None:
        self._tokens = [found[1] for found in _TOKEN.finditer(ddl)]
        self._place = 0

    def shape(self) -> Shape:
        word = self._next().lower()
        if word not in _NESTED or self._peek() != "<":
            self._skip()
            return Leaf()
        self._next()
        shape = _NESTED[word](self)
        self._skip()
        self._next()  # the closing bracket
        return shape

    def array(self) -> Shape:
        return Array(self.shape())

    def map(self) -> Shape:
        self.shape()
        self._next()  # the comma
        return Map(self.shape())

    def struct(self) -> Shape:
        fields = []
        while self._peek() not in (">", ""):
            name = self._next()
            if self._peek() == ":":
                self._next()
            fields.append((_unquoted(name), self.shape()))
            self._skip()  # NOT NULL, a comment
            if self._peek() == ",":
                self._next()
        return Struct(tuple(fields))

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        self._place += 1
        return self._tokens[self._place - 1] if self._place <= len(self._tokens) else ""

    def _skip(self) -> None:
        """Pass over the rest of a plain type, such as `(10,2)`, up to the comma or bracket behind it."""
        depth = 0
        while (token := self._peek()) and (depth or token not in (",", ">")):
            depth += (token == "(") - (token == ")")
            self._place += 1


_NESTED: Mapping[str, Callable[[_Reader], Shape]] = {
    "array": _Reader.array,
    "map": _Reader.map,
    "struct": _Reader.struct,
}


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
