"""The university of Liu and Vincent's experiments: relations, views over them, and updates of any size.

A design has the relations with their schemas and rows: `table24` is the one that the paper prints, `by_student` an older one.
All data is a function of a row's number and made by Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.language import Nested
from nabla.lake.facade import Lake


@dataclass(frozen=True)
class Experiment:
    """A view of the paper's with its condition or its join on a level; `right` is the relation that it joins."""

    operator: str
    level: str
    view: Nested
    paper: float
    """The maintenance limit that the paper found, in percent."""
    right: str = ""
    prefix: str = ""

    @property
    def name(self) -> str:
        return f"{self.prefix or self.operator + '_'}{self.level}"

    @property
    def title(self) -> str:
        return f"{self.operator} on level {' and '.join(self.level)}"


@dataclass(frozen=True)
class RelationDesign:
    """A relation: its schema, and expressions over the number `id` of a row for its key, for its subrelations, and for the part
    of a row that an update adds or removes. It has `rows` rows, or one for each student."""

    schema: str
    key: Mapping[str, str]
    subrelations: Mapping[str, str]
    part: Mapping[str, str]
    rows: int | None = None


@dataclass(frozen=True)
class Design:
    name: str
    relations: Mapping[str, RelationDesign]
    experiments: tuple[Experiment, ...]


# Rows as expressions over a number `id`. Every tuple is written out, because Spark compiles that, and lambdas it does not.


def relation(*tuples: Mapping[str, str]) -> str:
    return f"array({', '.join(map(_struct, tuples))})"


def _struct(attributes: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{name!r}, {value}' for name, value in attributes.items())})"


def below(most: int, *numbers: int) -> str:
    """A number that looks random."""
    return f"CAST(pmod(xxhash64({', '.join(map(str, ('id', *numbers)))}), {most}) AS INT)"


STUDENT = "concat('student ', lpad(CAST(id AS STRING), 8, '0'))"
LECT = RelationDesign(
    "lcName STRING, Salary INT, Speciality STRING",
    {
        "lcName": "concat('lecturer ', id)",
        "Salary": "CAST(60000 + 7 * id AS INT)",
        "Speciality": "concat('field ', id % 40)",
    },
    {},
    {},
    500,
)


@dataclass(frozen=True)
class University:
    lake: Lake
    students: int
    design: Design

    def build(self, relations: Iterable[str]) -> None:
        """Create the relations that are missing."""
        for name in sorted({*relations} - {*self.lake.status()}):
            with tempfile.TemporaryDirectory() as folder:  # reading rows is faster than computing them again
                self.rows(name, 1).write.parquet(f"{folder}/{name}")
                schema = self.design.relations[name].schema
                self.lake.create_nested(name, schema, self.lake.spark.read.parquet(f"{folder}/{name}"))

    def parts(self, table: str, share: float) -> DataFrame:
        """Parts of a share of the rows, scattered over the table. All keys are there: the paper's worst case."""
        return self._frame(table, self.design.relations[table].part, share)

    def rows(self, table: str, share: float) -> DataFrame:
        """The same share of the rows, whole. Once they were removed, to merge them is an update with new keys only."""
        return self._frame(table, self.design.relations[table].subrelations, share)

    def update(self, table: str, rows: DataFrame, sign: Sign) -> None:
        with self.lake.transaction() as tx:
            if sign == "⊕":
                tx.merge(table, rows)
            else:
                tx.remove(table, rows)

    def _frame(self, table: str, columns: Mapping[str, str], share: float) -> DataFrame:
        relation = self.design.relations[table]
        numbers = self.lake.spark.range(0, self.students if relation.rows is None else relation.rows, 1, 8)
        if share < 1:
            numbers = numbers.where(f"pmod(xxhash64(id, 17), 1000000) < {round(1_000_000 * share)}")
        return numbers.selectExpr(*(f"{text} AS {column}" for column, text in {**relation.key, **columns}.items()))
