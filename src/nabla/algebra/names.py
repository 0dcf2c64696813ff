"""The names of inner columns and inner tables: made here, and read here.

Every column of a query has a name of its own, its label and a number: `amount#12`. Columns that Nabla adds are called after
the columns that they belong to:

    weight#           a column of Nabla's own, which a query has once
    amount#12.sum     a partial result, from which an aggregate is made
    amount#12'        the same column in another role, which its mark tells
    @0.rows           a column of a stage

Inner tables begin with @, which no table of a user does:

    @0                the rows of the first stage of a view
    @0.state          its stored state
    @0.touched        the groups that a change touches

Stored lakes have state tables that were laid out under such names: what is written here must not change.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from dataclasses import dataclass
from enum import StrEnum

WEIGHT_FIELD = "_n"
"""The field of stored logs and of signed queries that has the weight of a row."""


class Mark(StrEnum):
    """The role of a column beside the column that it is named after."""

    OLD = "'"
    """The value before the change; if a relation is joined with itself, the column of the second operand."""
    KEY = "?"
    """The key of a group that the change touches."""
    LOST = "!"
    """The key of a group whose minimum or maximum was deleted."""
    AGAIN = "+"
    """Computed again from the rows that are left."""
    NOW = "="
    """After the change."""
    CHANGE = "~"
    """The change of the column's value."""
    DELETED = "~gone"
    """The most extreme value that was deleted."""


_MARKS = "(?:~gone|['?!+~=])*"
_COLUMN = re.compile(rf"(?P<label>.*)#(?P<number>\w*)(?:\.(?P<part>\w+))?(?P<marks>{_MARKS})", re.DOTALL)
_STAGE_COLUMN = re.compile(rf"(?P<stage>@\d+)\.(?P<label>\w+)(?P<marks>{_MARKS})")


@dataclass(frozen=True)
class ColumnName:
    """The parts of a column's name."""

    label: str
    number: str = ""
    part: str = ""
    marks: str = ""
    stage: str = ""

    @property
    def unmarked(self) -> str:
        """The name without the marks: that of the column whose role they tell."""
        if self.stage:
            return stage_column(self.stage, self.label)
        name = unique_name(self.label, self.number)
        return part_name(name, self.part) if self.part else name


def read_name(name: str) -> ColumnName | None:
    """The parts of a name; None if it is not a column's name of a query. Labels may have any characters."""
    match = _COLUMN.fullmatch(name) or _STAGE_COLUMN.fullmatch(name)
    return None if match is None else ColumnName(**{k: v for k, v in match.groupdict().items() if v})


# ---------------------------------------------------------------- columns


def unique_name(label: str, number: object) -> str:
    return f"{label}#{number}"


def own_name(word: str) -> str:
    """A column of Nabla's own."""
    return f"{word}#"


def part_name(name: str, part: str) -> str:
    """A partial result of an aggregate."""
    return f"{name}.{part}"


def mark_name(name: str, mark: Mark) -> str:
    return name + mark


def label_of(name: str) -> str:
    """The name without the number that makes it unique and without the text after the number."""
    return name.rsplit("#", 1)[0]


def number_of(name: str) -> int:
    """The number that makes a name unique, 0 if it ends with none."""
    _, _, number = name.rpartition("#")
    return int(number) if number.isdecimal() else 0


def is_deleted(name: str) -> bool:
    """Whether the name is of a column with the most extreme values that were deleted."""
    return name.endswith(Mark.DELETED)


# ---------------------------------------------------------------- tables


def inner_table(word: str) -> str:
    return f"@{word}"


def is_inner(table: str) -> bool:
    return table.startswith("@")


def stage_table(number: int) -> str:
    return inner_table(str(number))


def stage_of(table: str) -> str:
    """The stage that an inner table belongs to."""
    return table.partition(".")[0]


def stage_number(table: str) -> int:
    return int(stage_of(table).removeprefix("@"))


def stage_column(stage: str, word: str) -> str:
    return f"{stage}.{word}"


def state_table(stage: str) -> str:
    return f"{stage}.state"


def touched_table(stage: str) -> str:
    return f"{stage}.touched"


def is_touched(table: str) -> bool:
    """Whether the table holds the groups that a change touches, and so is as small as the change."""
    return table.endswith(".touched")


def inserted_table(table: str) -> str:
    """The rows that a change inserts into a table."""
    return touched_table(inner_table(f"new {table}"))


def inserted_into(name: str) -> str:
    """The table whose inserted rows these are; the name itself, if it is another one."""
    return name.removeprefix("@new ").removesuffix(".touched") if name.startswith("@new ") else name


def held_table(table: str, number: int) -> str:
    """The name for rows of a relation that a query holds. Rows selected from held rows are named after the relation, too."""
    return inner_table(f"{table.removeprefix('@').partition('~')[0]}~{number}")


# ---------------------------------------------------------------- fields


def stored_fields(columns: Sized) -> tuple[str, ...]:
    """The fields of an inner table: its columns by position, because their names mean nothing to others."""
    return tuple(f"c{place}" for place in range(len(columns)))


def place_of(field: str) -> int:
    """The position of such a field."""
    return int(field.removeprefix("c"))
