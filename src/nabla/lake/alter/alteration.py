"""The change of a table's columns as users say it, checked before anything is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    VarcharType,
)

from nabla._cached import cached_property
from nabla.engine import types
from nabla.errors import NablaError
from nabla.lake.objects.names import check_columns

_WIDER: Mapping[type[DataType], tuple[type[DataType], ...]] = {
    ByteType: (ShortType, IntegerType, LongType, FloatType, DoubleType),
    ShortType: (IntegerType, LongType, FloatType, DoubleType),
    IntegerType: (LongType, DoubleType),
    LongType: (),
    FloatType: (DoubleType,),
    DateType: (TimestampNTZType,),
}
"""The types to which Delta widens a type without a change of any value, beside decimals and texts."""
_DIGITS: Mapping[type[DataType], int] = {ByteType: 10, ShortType: 10, IntegerType: 10, LongType: 20}
"""The digits before the point that a decimal needs to take the place of a type, as Delta has it."""


@dataclass(frozen=True)
class Wanted:
    """What `Lake.alter_table` was asked for."""

    add: str | StructType | Mapping[str, str] | None = None
    drop: str | Sequence[str] | None = None
    rename: Mapping[str, str] | None = None
    widen: Mapping[str, str] | None = None
    default: Mapping[str, Any] | None = None

    @property
    def parses(self) -> bool:
        """Whether Spark is needed to read a type."""
        return bool(self.widen) or (self.add is not None and not isinstance(self.add, StructType))


@dataclass(frozen=True)
class NewColumn:
    """A column after the alteration. `origin` is the old name of one that stayed; `default` the value that all rows get in one
    that was added."""

    field: StructField
    origin: str | None = None
    default: Any = None


@dataclass(frozen=True)
class SchemaChange:
    """How the columns of a table or view change, for those who read it: the old columns with their types, and by their old
    names those that are renamed, dropped, or get a wider type."""

    name: str
    before: Mapping[str, str]
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    widened: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.added:
            yield f"added {', '.join(self.added)}"
        if self.dropped:
            yield f"dropped {', '.join(self.dropped)}"
        if self.renamed:
            yield "renamed " + ", ".join(f"{old} to {new}" for old, new in self.renamed.items())
        if self.widened:
            yield f"widened {', '.join(self.widened)}"


@dataclass(frozen=True)
class Alteration:
    """The columns of a table before and after."""

    table: str
    before: StructType
    columns: tuple[NewColumn, ...]

    @cached_property
    def after(self) -> StructType:
        return StructType([column.field for column in self.columns])

    @cached_property
    def change(self) -> SchemaChange:
        stayed = {c.origin: c.field for c in self.columns if c.origin is not None}
        return SchemaChange(
            self.table,
            {f.name: f.dataType.simpleString() for f in self.before.fields},
            tuple(c.field.name for c in self.columns if c.origin is None),
            tuple(name for name in self.before.names if name not in stayed),
            {old: field.name for old, field in stayed.items() if field.name != old},
            tuple(old for old, field in stayed.items() if field.dataType != self.before[old].dataType),
        )

    @property
    def origin(self) -> dict[str, str]:
        """The old names of the columns that stay, by their new ones."""
        return {c.field.name: c.origin for c in self.columns if c.origin is not None}


def read_alteration(table: str, before: StructType, wanted: Wanted) -> Alteration:
    """The alteration that was asked for. All names in it are those before it."""
    what = f'table "{table}"'
    drop = [wanted.drop] if isinstance(wanted.drop, str) else list(wanted.drop or ())
    dropped = [_find(before, name, what) for name in drop]
    renamed = {_find(before, old, what): new for old, new in (wanted.rename or {}).items()}
    widened = {_find(before, name, what): kind for name, kind in (wanted.widen or {}).items()}
    added = _added_fields(wanted.add, what)
    _check_clear(what, dropped, renamed, widened, added, wanted.default or {})
    columns = [
        NewColumn(_altered(field, renamed.get(field.name), widened.get(field.name), what), field.name)
        for field in before.fields
        if field.name not in dropped
    ]
    defaults = {name.casefold(): value for name, value in (wanted.default or {}).items()}
    columns += [NewColumn(field, None, defaults.get(field.name.casefold())) for field in added.fields]
    if not columns:
        raise _refused(what, "no column would be left", "Drop the table, or keep one of its columns.")
    after = StructType([column.field for column in columns])
    if not all(name.strip() for name in after.names):
        raise _refused(what, "a column has no name", "Give it one.")
    types.check_storable(after, what)
    check_columns(after.names, what)
    return Alteration(table, before, tuple(columns))


def _check_clear(
    what: str,
    dropped: Sequence[str],
    renamed: Mapping[str, str],
    widened: Mapping[str, str],
    added: StructType,
    defaults: Mapping[str, Any],
) -> None:
    if not (dropped or renamed or widened or added.fields):
        raise _refused(what, "there is nothing to alter", "Pass add=, drop=, rename= or widen=.")
    if both := sorted({*dropped} & {*renamed, *widened}):
        raise _refused(what, f'"{both[0]}" cannot be dropped and changed', "Say one of them.")
    names = {name.casefold() for name in added.names}
    if unknown := next((name for name in defaults if name.casefold() not in names), None):
        raise _refused(what, f'default= names "{unknown}", which is not added', "Name columns of add=.")


def _find(before: StructType, name: str, what: str) -> str:
    found = next((n for n in before.names if n.casefold() == name.casefold()), None)
    if found is None:
        raise NablaError(
            "NABLA_UNKNOWN_COLUMN",
            f'there is no column "{name}"',
            place=what,
            remedy=f"It has the columns {', '.join(before.names)}.",
        )
    return found


def _added_fields(add: str | StructType | Mapping[str, str] | None, what: str) -> StructType:
    if add is None:
        return StructType([])
    if isinstance(add, str):
        add = types.parse(add)
    elif isinstance(add, Mapping):
        add = StructType([StructField(name, _type(kind)) for name, kind in add.items()])
    if add.fields:
        types.check_declared(add, what)
    return add


def _type(text: str) -> DataType:
    fields = types.parse(f"x {text}").fields
    if len(fields) != 1 or not fields[0].nullable or fields[0].metadata:
        raise NablaError(
            "NABLA_SCHEMA", f"{text!r} is not just a type", place="alter_table", remedy='Write it as "BIGINT".'
        )
    return fields[0].dataType


def _altered(field: StructField, name: str | None, kind: str | None, what: str) -> StructField:
    wider = field.dataType if kind is None else _type(kind)
    if kind is not None and not is_wider(field.dataType, wider):
        raise NablaError(
            "NABLA_ALTER",
            f'"{field.name}" of type {field.dataType.simpleString()} cannot be widened to {wider.simpleString()}',
            place=what,
            remedy=f"{_wider_types(field.dataType)} For another type, add a column, fill it with update, and drop this one.",
        )
    return StructField(name or field.name, wider, field.nullable)


def _wider_types(old: DataType) -> str:
    wider = [kind().simpleString() for kind in _WIDER.get(type(old), ())]
    if type(old) in _DIGITS:
        wider.append(f"decimal with {_DIGITS[type(old)]} or more digits before the point")
    if isinstance(old, DecimalType):
        wider.append("a decimal with more digits and no fewer on either side of the point")
    if isinstance(old, VarcharType | CharType):
        wider.append("a longer text")
    return f"It can become {' or '.join(wider)}." if wider else "There is no wider type."


def is_wider(old: DataType, new: DataType) -> bool:
    """Whether a column of one type may get another one, because that has every value of it: Delta's rules of widening, and
    longer texts."""
    if isinstance(old, VarcharType | CharType):
        length = getattr(new, "length", None)
        return type(new) is StringType or (isinstance(new, VarcharType) and length is not None and length > old.length)
    if isinstance(new, DecimalType):
        if isinstance(old, DecimalType):
            more, scale = new.precision - old.precision, new.scale - old.scale
            return more >= scale >= 0 and more > 0
        digits = _DIGITS.get(type(old))
        return digits is not None and new.precision - new.scale >= digits
    return type(new) in _WIDER.get(type(old), ())


def _refused(what: str, why: str, remedy: str) -> NablaError:
    return NablaError("NABLA_ALTER", why, place=what, remedy=remedy)
