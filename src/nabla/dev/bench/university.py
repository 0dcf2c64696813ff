"""The university of Liu and Vincent's experiments: its five relations, the six views, and updates of any size.

A join of the model needs the same atomic attributes at every level that both sides have, so `teach` and `test` are kept
for each student, as `subjLect` in the paper's example 5.1. All data is a function of a student's number and made by Spark.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from nabla.frontends.nested.equations import Sign
from nabla.frontends.nested.language import Nested, nested
from nabla.lake.facade import Lake

SCHEMAS: Mapping[str, str] = {
    "stud": "Name STRING, "
    "Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Marks: ARRAY<STRUCT<testName: STRING, Mark: INT>>>>, "
    "Addrs ARRAY<STRUCT<Addr: STRING>>",
    "hobby": "Name STRING, Hobbies ARRAY<STRUCT<Hobby: STRING>>",
    "teach": "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Lects: ARRAY<STRUCT<lcName: STRING>>>>",
    "test": "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, "
    "Marks: ARRAY<STRUCT<testName: STRING, Mark: INT, Descs: ARRAY<STRUCT<Description: STRING>>>>>>",
    "lect": "lcName STRING, Salary INT, Speciality STRING",
}


@dataclass(frozen=True)
class Experiment:
    """A view of the paper's with its condition or its join on a level; `right` is the relation that it joins."""

    operator: str
    level: str
    view: Nested
    paper: float
    """The maintenance limit that the paper found, in percent."""
    right: str = ""

    @property
    def name(self) -> str:
        return f"{self.operator}_{self.level}"


_STUD = nested("stud")
_GOOD = {"where": "Mark >= 90", "is": "nonempty"}
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("selection", "1", _STUD.select("Name LIKE '%7'"), 18),
    Experiment("selection", "2", _STUD.select(Subjs={"where": "Year = 1998", "is": "nonempty"}), 40.5),
    Experiment("selection", "3", _STUD.select(Subjs={"Marks": _GOOD, "is": "nonempty"}), 32),
    Experiment("join", "1", _STUD.join("hobby"), 21, "hobby"),
    Experiment("join", "2", _STUD.join("teach"), 44, "teach"),
    Experiment("join", "23", _STUD.join("test"), 36, "test"),
)

# Rows as expressions over a student's number `id`. One in ten students, years and marks satisfies the conditions. Every
# tuple is written out, for Spark compiles that, which it does not do with lambdas.

SUBJECTS, TESTS = range(10), range(4)


def _relation(*tuples: Mapping[str, str]) -> str:
    return f"array({', '.join(map(_struct, tuples))})"


def _struct(attributes: Mapping[str, str]) -> str:
    return f"named_struct({', '.join(f'{name!r}, {value}' for name, value in attributes.items())})"


def _below(most: int, *numbers: int) -> str:
    """A number that looks random."""
    return f"CAST(pmod(xxhash64({', '.join(map(str, ('id', *numbers)))}), {most}) AS INT)"


def _subjects(attribute: str, part: Callable[[int], str]) -> str:
    """The subjects of a student, with a subrelation in each."""
    return _relation(
        *(
            {
                "sjName": f"concat('subject ', 10 * {_below(40)} + {s})",
                "Year": f"1990 + {_below(10, s)}",
                attribute: part(s),
            }
            for s in SUBJECTS
        )
    )


def _marks(s: int, more: Mapping[str, str]) -> list[Mapping[str, str]]:
    return [{"testName": f"'test {t}'", "Mark": _below(100, s, t), **more} for t in TESTS]


def _resit(more: Mapping[str, str]) -> Mapping[str, str]:
    return {"testName": "'resit'", "Mark": "95", **more}


def _described(description: str) -> Mapping[str, str]:
    return {"Descs": _relation({"Description": description})}


def _tests(s: int) -> str:
    own = _described(f"concat('chapter ', {_below(30, s)})")
    return _relation(*_marks(s, own), _resit(own))


_ROWS: Mapping[str, Mapping[str, str]] = {
    "stud": {
        "Subjs": _subjects("Marks", lambda s: _relation(*_marks(s, {}))),
        "Addrs": _relation({"Addr": "concat(id % 997, ' North Terrace')"}),
    },
    "hobby": {"Hobbies": _relation({"Hobby": f"concat('hobby ', {_below(50)})"})},
    "teach": {"Subjs": _subjects("Lects", lambda s: _relation({"lcName": f"concat('lecturer ', {_below(500, s)})"}))},
    "test": {"Subjs": _subjects("Marks", _tests)},
}
_PARTS: Mapping[str, Mapping[str, str]] = {
    "stud": {"Subjs": _subjects("Marks", lambda s: _relation(_resit({})))},
    "hobby": {"Hobbies": _relation({"Hobby": "concat('club ', id % 20)"})},
    "teach": {"Subjs": _subjects("Lects", lambda s: _relation({"lcName": f"'tutor {s}'"}))},
    "test": {"Subjs": _subjects("Marks", lambda s: _relation(*_marks(s, _described(f"'part {s}'"))))},
}
"""An update of a row: it adds a tuple to every subrelation of the last level, which the views show."""


@dataclass(frozen=True)
class University:
    lake: Lake
    students: int

    def build(self, relations: Iterable[str]) -> None:
        """Create the relations that are missing."""
        for name in sorted({*relations} - {*self.lake.status()}):
            with tempfile.TemporaryDirectory() as folder:  # reading rows is faster than computing them again
                self._all(name).write.parquet(f"{folder}/{name}")
                self.lake.create_nested(name, SCHEMAS[name], self.lake.spark.read.parquet(f"{folder}/{name}"))

    def _all(self, name: str) -> DataFrame:
        if name != "lect":
            return self._students(_ROWS[name])
        lecturer = ("concat('lecturer ', id) AS lcName", "CAST(60000 + 7 * id AS INT) AS Salary", "'' AS Speciality")
        return self.lake.spark.range(500).selectExpr(*lecturer)

    def parts(self, table: str, share: float) -> DataFrame:
        """Parts of a share of the rows, scattered over the table. All keys are there: the paper's worst case."""
        return self._students(_PARTS[table], share)

    def rows(self, table: str, share: float) -> DataFrame:
        """The same share of the rows, whole. Once they were removed, to merge them is an update with new keys only."""
        return self._students(_ROWS[table], share)

    def update(self, table: str, rows: DataFrame, sign: Sign) -> None:
        with self.lake.transaction() as tx:
            if sign == "⊕":
                tx.merge(table, rows)
            else:
                tx.remove(table, rows)

    def _students(self, columns: Mapping[str, str], share: float = 1.0) -> DataFrame:
        numbers = self.lake.spark.range(0, self.students, 1, 8)
        if share < 1:
            numbers = numbers.where(f"pmod(xxhash64(id, 17), 1000000) < {round(1_000_000 * share)}")
        name = "concat('student ', lpad(CAST(id AS STRING), 8, '0'))"
        return numbers.selectExpr(*(f"{text} AS {column}" for column, text in ({"Name": name} | {**columns}).items()))
