"""The columns of the matrix: every type that a table can store, with values at its edges, and types that only queries have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

from nabla.algebra.expressions import Column
from nabla.dev.testing.random_data import Row, Table

GROUPS = 4
ROWS = 24


@dataclass(frozen=True)
class Kind:
    """A kind of value. `type` is stored; `derive` makes another value of it that tables cannot store, and `show` makes a
    value storable again. `functions` says whether all of Spark's functions are called with it: one kind a type is enough."""

    name: str
    type: str
    values: tuple[Any, ...]
    derive: str = "{}"
    show: str = "{}"
    functions: bool = True
    of: str = ""
    """The kind whose stored column is used, if there is no column of its own."""

    @property
    def column(self) -> str:
        return self.of or self.name

    def value(self, relation: str = "") -> str:
        """The value as SQL over a row of a relation."""
        return self.derive.format(f"{relation}.{self.column}" if relation else self.column)

    def shown(self, text: str) -> str:
        """SQL that gives such a value, as a value that a table can store."""
        return self.show.format(text)


def _whole(bits: int) -> tuple[int, ...]:
    return (-(1 << bits - 1), (1 << bits - 1) - 1, 0, 1, -1)


def _decimals(*texts: str) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, texts))


_NINES = "9" * 38
_TEXT = "CAST({} AS STRING)"
_NAN, _INFINITY = float("nan"), float("inf")
_MOMENTS = (
    datetime(1, 1, 1),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
    datetime(1969, 12, 31, 23, 59, 59, 999999),
    datetime(2024, 2, 29, 12),
    datetime(2024, 10, 27, 1, 30),
)

KINDS: tuple[Kind, ...] = (
    Kind("bool", "boolean", (True, False)),
    Kind("tiny", "tinyint", _whole(8)),
    Kind("small", "smallint", _whole(16)),
    Kind("whole", "int", _whole(32)),
    Kind("few", "int", (0, 1, 2, 3, 7)),
    Kind("big", "bigint", (0, 5, -3, 1 << 40, -(1 << 33))),
    # These have one sign each: where Spark adds doubles for an average, it loses what is left of a sum of both signs.
    # Sums of the first are above 2**53, so that they have no exact double, and below 2**63.
    Kind("bigger", "bigint", ((1 << 53) + 1, 1 << 55, (1 << 52) + 1, 3), functions=False),
    Kind("biggest", "bigint", ((1 << 63) - 1, (1 << 63) - 2, 1 << 62, 0), functions=False),
    Kind("least", "bigint", (-(1 << 63), 1 - (1 << 63), -(1 << 62)), functions=False),
    Kind("single", "float", (0.5, -2.25, 0.0, 3.0)),
    Kind("single_edge", "float", (_NAN, -0.0, 0.0, _INFINITY, -_INFINITY, 3.4028234663852886e38), functions=False),
    Kind("double", "double", (0.5, -2.25, 0.0, 3.0)),
    Kind("double_edge", "double", (_NAN, -0.0, 0.0, _INFINITY, -_INFINITY, 1.7976931348623157e308), functions=False),
    Kind("money", "decimal(10,2)", _decimals("0.00", "1.50", "-3.10", "99999999.99", "-99999999.99")),
    Kind("wide", "decimal(38,0)", _decimals("0", "5", "-7", "9" * 30), functions=False),
    Kind("widest", "decimal(38,0)", _decimals(_NINES, f"-{_NINES}", "0", "1"), functions=False),
    Kind("fine", "decimal(38,18)", _decimals("0", "1e-18", "-3.5", "9" * 20 + "." + "9" * 18)),
    Kind("finest", "decimal(38,38)", _decimals("0", f"0.{_NINES}", f"-0.{_NINES}", "1e-38"), functions=False),
    Kind("text", "string", ("", "a", "B", "ab", " a ", "ß", "Ω🙂", "12", "\0", "%_\\", "${x}'`")),
    Kind("bytes", "binary", (b"", b"\0", b"a", b"\xff\xfe", b"\x80")),
    Kind("day", "date", (date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(1582, 10, 15))),
    Kind("moment", "timestamp", tuple(m.replace(tzinfo=UTC) for m in _MOMENTS)),
    Kind("clock", "timestamp_ntz", _MOMENTS),
    Kind("list", "array<int>", ((), (1,), (1, 2), (2, None, 1), (None,))),
    Kind("words", "array<string>", ((), ("a",), ("", "ß"), (None,)), functions=False),
    Kind("pair", "struct<x:int,y:string>", ((1, "a"), (1, None), (2, "b"), (None, None))),
    Kind(
        "deep",
        "struct<x:array<struct<y:double>>>",
        ((((0.5,),),), (((_NAN,), (-0.0,)),), ((),), (None,)),
        functions=False,
    ),
    Kind("entries", "map<string,int>", ((), (("a", 1),), (("a", None),), (("a", 1), ("b", 2)), (("b", 2), ("a", 1)))),
    Kind("folded", "string", (), "{} COLLATE UTF8_LCASE", _TEXT, of="text"),
    Kind("unicode", "string", (), "{} COLLATE UNICODE_CI", _TEXT, functions=False, of="text"),
    Kind("months", "int", (), "make_ym_interval({})", _TEXT, of="few"),
    Kind("while", "int", (), "make_dt_interval({}, 1, 2, 3.5)", _TEXT, of="few"),
    Kind("any", "string", (), "parse_json(to_json(array({})))", "to_json({})", of="few"),
    Kind("nothing", "int", (), "nullif({0}, {0})", functions=False, of="few"),
)


def stored(kinds: tuple[Kind, ...] = KINDS) -> tuple[Kind, ...]:
    """The kinds that have a column of their own, those of the given kinds and those that they are derived from."""
    names = {kind.column for kind in kinds}
    return tuple(kind for kind in KINDS if kind.name in names)


def table(name: str, kinds: tuple[Kind, ...]) -> Table:
    """A table with a number and a group for each row, and a column for each kind."""
    columns = (Column("id", "int", False), Column("grp", "int"), *(Column(k.name, k.type) for k in kinds))
    return Table(name, columns)


def rows(rng: Random, kinds: tuple[Kind, ...], numbers: range) -> Iterator[Row]:
    """Rows in which every value of a kind occurs sooner or later, NULL among them, and most of them several times."""
    for number in numbers:
        yield number, _group(rng), *(_value(rng, kind) for kind in kinds)


def _group(rng: Random) -> int | None:
    return rng.choice((*range(GROUPS), None))


def _value(rng: Random, kind: Kind) -> Any:
    return None if rng.random() < 0.15 else rng.choice(kind.values)
