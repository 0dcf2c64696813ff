"""A design in which `teach` and `test` are kept for each student, as `subjLect` in the paper's example 5.1.

A join at the top level needs the same atomic attributes at every level that both sides have. The paper's own schema, with
joins below the top level, is `table24`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nabla.dev.bench.university import LECT, STUDENT, Design, Experiment, RelationDesign, below, relation
from nabla.frontends.nested.language import nested

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

# One in ten students, years and marks satisfies the conditions.

SUBJECTS, TESTS = range(10), range(4)


def subjects(attribute: str, part: Callable[[int], str]) -> str:
    """The subjects of a student, with a subrelation in each."""
    return relation(
        *(
            {
                "sjName": f"concat('subject ', 10 * {below(40)} + {s})",
                "Year": f"1990 + {below(10, s)}",
                attribute: part(s),
            }
            for s in SUBJECTS
        )
    )


def _marks(s: int, more: Mapping[str, str]) -> list[Mapping[str, str]]:
    return [{"testName": f"'test {t}'", "Mark": below(100, s, t), **more} for t in TESTS]


def _resit(more: Mapping[str, str]) -> Mapping[str, str]:
    return {"testName": "'resit'", "Mark": "95", **more}


def _described(description: str) -> Mapping[str, str]:
    return {"Descs": relation({"Description": description})}


def _tests(s: int) -> str:
    own = _described(f"concat('chapter ', {below(30, s)})")
    return relation(*_marks(s, own), _resit(own))


_KEY = {"Name": STUDENT}
_RELATIONS = {
    "stud": RelationDesign(
        "Name STRING, "
        "Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Marks: ARRAY<STRUCT<testName: STRING, Mark: INT>>>>, "
        "Addrs ARRAY<STRUCT<Addr: STRING>>",
        _KEY,
        {
            "Subjs": subjects("Marks", lambda s: relation(*_marks(s, {}))),
            "Addrs": relation({"Addr": "concat(id % 997, ' North Terrace')"}),
        },
        {"Subjs": subjects("Marks", lambda s: relation(_resit({})))},
    ),
    "hobby": RelationDesign(
        "Name STRING, Hobbies ARRAY<STRUCT<Hobby: STRING>>",
        _KEY,
        {"Hobbies": relation({"Hobby": f"concat('hobby ', {below(50)})"})},
        {"Hobbies": relation({"Hobby": "concat('club ', id % 20)"})},
    ),
    "teach": RelationDesign(
        "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Lects: ARRAY<STRUCT<lcName: STRING>>>>",
        _KEY,
        {"Subjs": subjects("Lects", lambda s: relation({"lcName": f"concat('lecturer ', {below(500, s)})"}))},
        {"Subjs": subjects("Lects", lambda s: relation({"lcName": f"'tutor {s}'"}))},
    ),
    "test": RelationDesign(
        "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, "
        "Marks: ARRAY<STRUCT<testName: STRING, Mark: INT, Descs: ARRAY<STRUCT<Description: STRING>>>>>>",
        _KEY,
        {"Subjs": subjects("Marks", _tests)},
        {"Subjs": subjects("Marks", lambda s: relation(*_marks(s, _described(f"'part {s}'"))))},
    ),
    "lect": LECT,
}
BY_STUDENT = Design("by-student", _RELATIONS, EXPERIMENTS)
