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
    """The role of a column that stands beside the one that it is named after."""

    OLD = "'"
    """Stored before the change; of a relation that stands beside itself, the second one."""
    KEY = "?"
    """The key of a group that the change touches."""
    LOST = "!"
    """The key of a group whose minimum or maximum was deleted."""
    AGAIN = "+"
    """Computed again from the rows that are left."""
    NOW = "="
    """After the change."""
    CHANGE = "~"
    """How much it changes."""
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
        """The name of the column whose role the marks tell."""
        if self.stage:
            return stage_column(self.stage, self.label)
        name = unique_name(self.label, self.number)
        return part_name(name, self.part) if self.part else name


def read_name(name: str) -> ColumnName | None:
    """None where the name is none of a query's: labels may have any characters."""
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
    """The name without the number that makes it unique, and what follows it."""
    return name.rsplit("#", 1)[0]


def number_of(name: str) -> int:
    """The number that makes a name unique, 0 if it ends with none."""
    _, _, number = name.rpartition("#")
    return int(number) if number.isdecimal() else 0


def is_deleted(name: str) -> bool:
    """Whether a column has the most extreme values that were deleted."""
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
    """Whether a table has what a change touches, and is as small as that."""
    return table.endswith(".touched")


def inserted_table(table: str) -> str:
    """The rows that a change inserts into a table."""
    return touched_table(inner_table(f"new {table}"))


def inserted_into(name: str) -> str:
    """The table whose inserted rows these are; the name itself, if it is another one."""
    return name.removeprefix("@new ").removesuffix(".touched") if name.startswith("@new ") else name


def held_table(table: str, number: int) -> str:
    """Rows of a relation that a query holds; rows of rows that it holds are called after the relation."""
    return inner_table(f"{table.removeprefix('@').partition('~')[0]}~{number}")


# ---------------------------------------------------------------- fields


def stored_fields(columns: Sized) -> tuple[str, ...]:
    """The fields of an inner table: its columns by position, for their names are made up anyway."""
    return tuple(f"c{place}" for place in range(len(columns)))


def place_of(field: str) -> int:
    """The position of such a field."""
    return int(field.removeprefix("c"))
