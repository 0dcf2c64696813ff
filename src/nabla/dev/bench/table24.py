"""The university as the paper prints it: the schemas of table 24, and the queries of section 6.3.

`teach` and `test` have a row for each subject and year, and join `stud` below the top level. The paper does not say how many
rows its relations have; here a student has ten subjects with four marks each, and there are 400 subjects in ten years.
"""

from __future__ import annotations

from nabla.dev.bench.by_student import TESTS, subjects
from nabla.dev.bench.university import LECT, STUDENT, Design, Experiment, RelationDesign, below, relation
from nabla.frontends.nested.language import nested

_STUD = nested("stud")
Q_S = _STUD.select(Subjs={"Marks": {"where": "Mark >= 90", "is": "nonempty"}, "is": "nonempty"})
"""Students with a mark of 90 or more. Like the paper's equation 6 it selects in subrelations, too; its SQL shows them whole."""
Q_JN = _STUD.join("test", at="Subjs", on={"Marks": "TestNames"}).select(Subjs={"is": "nonempty"})
"""Students with a mark in a test that `test` knows for the subject and year: a join on the second and the third level. It shows
the tests, as the join of the paper's equation 14 does; its SQL leaves them out."""
_JOINED = _STUD.join("teach", at="Subjs").select(Subjs={"is": "nonempty"})
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("selection", "1", _STUD.select("Name LIKE '%7'"), 18, prefix="q_s"),
    Experiment("selection", "2", _STUD.select(Subjs={"where": "Year = 1998", "is": "nonempty"}), 40.5, prefix="q_s"),
    Experiment("selection", "3", Q_S, 32, prefix="q_s"),
    Experiment("join", "1", _STUD.join("hobby"), 21, "hobby", prefix="q_jn"),
    Experiment("join", "2", _JOINED, 44, "teach", prefix="q_jn"),
    Experiment("join", "23", Q_JN, 36, "test", prefix="q_jn"),
)


def _marks(s: int) -> str:
    return relation(*({"TestName": f"'test {t}'", "Mark": below(100, s, t)} for t in TESTS))


def _resit(s: int) -> str:
    return relation({"TestName": "'resit'", "Mark": "95"})


_SUBJECT = {"sjName": "concat('subject ', id div 10)", "Year": "CAST(1990 + id % 10 AS INT)"}
SUBJECT_YEARS = 4000
"""Rows of `teach` and of `test`."""
_RELATIONS = {
    "stud": RelationDesign(
        "Name STRING, "
        "Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Marks: ARRAY<STRUCT<TestName: STRING, Mark: INT>>>>, "
        "Addr ARRAY<STRUCT<Addr: STRING>>",
        {"Name": STUDENT},
        {
            "Subjs": subjects("Marks", _marks),
            "Addr": relation({"Addr": "concat(id % 997, ' North Terrace')"}),
        },
        {"Subjs": subjects("Marks", _resit)},
    ),
    "hobby": RelationDesign(
        "Name STRING, Hobbies ARRAY<STRUCT<Hobby: STRING>>",
        {"Name": STUDENT},
        {"Hobbies": relation({"Hobby": f"concat('hobby ', {below(50)})"})},
        {"Hobbies": relation({"Hobby": "concat('club ', id % 20)"})},
    ),
    "teach": RelationDesign(
        "sjName STRING, Year INT, lcNames ARRAY<STRUCT<lcName: STRING>>",
        _SUBJECT,
        {"lcNames": relation({"lcName": f"concat('lecturer ', {below(500)})"})},
        {"lcNames": relation({"lcName": "concat('tutor ', id % 50)"})},
        SUBJECT_YEARS,
    ),
    "test": RelationDesign(
        "sjName STRING, Year INT, TestNames ARRAY<STRUCT<TestName: STRING, Description: STRING>>",
        _SUBJECT,
        {
            "TestNames": relation(
                *({"TestName": f"'test {t}'", "Description": f"concat('chapter ', {below(30, t)})"} for t in TESTS)
            )
        },
        {"TestNames": relation({"TestName": "'resit'", "Description": "'all chapters'"})},
        SUBJECT_YEARS,
    ),
    "lect": LECT,
}
TABLE_24 = Design("table24", _RELATIONS, EXPERIMENTS)
