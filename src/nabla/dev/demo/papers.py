"""`nabla papers`: an example of each paper that Nabla implements, run on a small lake and shown beside the paper's table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

import nabla
from nabla.cli.output import cell, table, working
from nabla.lake.facade import Lake

Row = tuple[Any, ...]


@dataclass(frozen=True)
class PaperChange:
    """Rows that a change deletes from a view and inserts into it."""

    deleted: frozenset[Row] = frozenset()
    inserted: frozenset[Row] = frozenset()


@dataclass(frozen=True)
class PaperExample:
    """An example of a paper. `prepare` makes its tables and views, `change` the transaction; `expected` has the change of each
    view as the paper prints it, or as its erratum has it. `form` names a derivation to show for the first view."""

    authors: str
    title: str
    place: str
    says: str
    prepare: Callable[[Lake], None]
    change: Callable[[Lake], None]
    expected: Mapping[str, PaperChange]
    remark: str = ""
    form: str = ""


@dataclass
class Shown:
    """An example as it was run."""

    example: PaperExample
    found: dict[str, PaperChange] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return self.found == dict(self.example.expected)

    def to_dict(self) -> dict[str, Any]:
        views = {
            name: {
                "mode": self.modes[name],
                "deleted": sorted(map(repr, change.deleted)),
                "inserted": sorted(map(repr, change.inserted)),
                "agrees": change == self.example.expected[name],
            }
            for name, change in self.found.items()
        }
        return {
            "authors": self.example.authors,
            "title": self.example.title,
            "place": self.example.place,
            "views": views,
        }


def _change(deleted: list[Row] | None = None, inserted: list[Row] | None = None) -> PaperChange:
    return PaperChange(frozenset(deleted or ()), frozenset(inserted or ()))


# ------------------------------------------------- Griffin, Libkin, Trickey


def _two_relations(lake: Lake) -> None:
    lake.create_table("r1", schema="x STRING", data=[("a",), ("b",)])
    lake.create_table("r2", schema="x STRING", data=[("a",)])
    lake.create_view("q", "SELECT x FROM r1 UNION SELECT x FROM r2")


def _proposition_1(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.delete("r1", rows=[("b",)])
        tx.insert("r2", [("b",), ("c",)])


# ------------------------------------------------------------ Griffin, Kumar


def _university(lake: Lake) -> None:
    lake.create_table(
        "reg", schema="student STRING, cname STRING", data=[("Joe", "DB"), ("Mary", "DB"), ("Sam", "Psych")]
    )
    courses = [("DB", "Bob"), ("AI", "Tom"), ("History", "Jack"), ("Psych", "Jill")]
    lake.create_table("course", schema="course STRING, iname STRING", data=courses)
    lake.create_view("course_reg", "SELECT * FROM course LEFT JOIN reg ON course = cname")
    lake.create_view("faculty_course_reg", "SELECT * FROM course_reg c LEFT ANTI JOIN reg r ON c.iname = r.student")


def _jill_registers(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.insert("reg", [("Jill", "AI")])


# ------------------------------------------------------------------- Barbier


def _two_causes(lake: Lake) -> None:
    """Remark 6.2 with its two databases, and the neutral value of section 4.4."""
    lake.create_table("d1", schema="x STRING", data=[("a",)])
    lake.create_table("d2", schema="x STRING", data=[("a",), ("b",)])
    for name in ("d1", "d2"):
        lake.create_view(f"some_{name}", f"SELECT DISTINCT 'a row' AS there FROM {name}")
    lake.create_table("sums", schema="g INT, x INT", data=[(1, 5)])
    lake.create_view("totals", "SELECT g, SUM(x) AS total FROM sums GROUP BY g")


def _delete_a(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.delete("d1", rows=[("a",)])
        tx.delete("d2", rows=[("a",)])
        tx.insert("sums", [(1, 0)])


# ------------------------------------------------------------------- Manthey


def _edges(lake: Lake) -> None:
    lake.create_table("edge", schema="a BIGINT, b BIGINT", data=[(1, 2), (2, 3), (3, 4)])
    rules = "link(X, Y) :- edge(X, Y). link(X, Y) :- edge(X, Z), edge(Z, Y)."
    lake.create_rules("graph", f"{rules} path(X, Y) :- edge(X, Y). path(X, Y) :- edge(X, Z), path(Z, Y).")


def _turn_an_edge(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.delete("edge", rows=[(3, 4)])
        tx.insert("edge", [(4, 3)])


# -------------------------------------------------------------- Liu, Vincent


def _students(lake: Lake) -> None:
    pstud = lake.create_nested(
        "pstud",
        "Name STRING, Subjs ARRAY<STRUCT<sjName: STRING, Year: INT, Marks: ARRAY<STRUCT<testName: STRING, Mark: INT>>>>, "
        "Tels ARRAY<STRUCT<Tel: STRING>>",
    )
    subjects = [("DB", 1998, [("test1", 81), ("test2", 90)]), ("Java", 1997, [("exam", 80), ("ass1", 60)])]
    with lake.transaction() as tx:
        tx.merge("pstud", [("Jack", subjects, [("04143",), ("1435",), ("2302",)])])
        tx.merge("pstud", [("John", [("DB", 1998, [("test1", 60), ("test2", 80)])], [("2354",)])])
    lake.create_view("stud_tel", pstud.project("Name", "Tels"))


def _table_4(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.merge("pstud", [("Jack", [("Java", 1997, [("ass1", 60), ("ass2", 70)])], [("54111",)])])
        tx.merge("pstud", [("Andrew", [("DB", 1999, [("test1", 60)])], [])])


def _tels(*numbers: str) -> Row:
    return tuple((number,) for number in numbers)


EXAMPLES = (
    PaperExample(
        "Timothy Griffin, Leonid Libkin, Howard Trickey",
        "An improved algorithm for the incremental recomputation of active relational expressions (1997)",
        "proposition 1",
        "Q = R1 ∪ R2 with R1 = {a, b}, R2 = {a}; ∇R1 = {b}, ΔR2 = {b, c}.",
        _two_relations,
        _proposition_1,
        {"q": _change([], [("c",)])},
        "Qian and Wiederhold's algorithm of 1991 gives ΔQ = {b, c}, although b is there before and after.",
        form="qian-wiederhold",
    ),
    PaperExample(
        "Timothy Griffin, Bharat Kumar",
        "Algebraic change propagation for semijoin and outerjoin queries (1998)",
        "examples 2.1 and 3.1",
        "CourseReg = Course ⟕ Reg, FacultyCourseReg = CourseReg ▷ Reg; Jill, who teaches Psych, registers for AI.",
        _university,
        _jill_registers,
        {
            "course_reg": _change([("AI", "Tom", None, None)], [("AI", "Tom", "Jill", "AI")]),
            "faculty_course_reg": _change(
                [("AI", "Tom", None, None), ("Psych", "Jill", "Sam", "Psych")], [("AI", "Tom", "Jill", "AI")]
            ),
        },
        form="pairs",
    ),
    PaperExample(
        "Nicolas Barbier",
        "Incremental evaluation of relational expressions (thesis, Hasselt)",
        "remark 6.2 and section 4.4",
        "Whether there is a row, for R = {a} and for R = {a, b}; then a is deleted. And a sum to which 0 is added.",
        _two_causes,
        _delete_a,
        {
            "some_d1": _change([("a row",)]),
            "some_d2": _change(),
            "totals": _change(),
        },
        "The two views had the same rows, and the same row was deleted: no view knows its own future without counts. "
        "A neutral value changes no sum, and a minimal delta does not have it.",
        form="count",
    ),
    PaperExample(
        "Rainer Manthey",
        "Reflections on some fundamental issues of rule-based incremental update propagation",
        "section 3.2",
        "Edges 1→2, 2→3, 3→4; the last one is turned round.",
        _edges,
        _turn_an_edge,
        {
            "link": _change([(3, 4), (2, 4)], [(4, 3)]),
            "path": _change([(1, 4), (2, 4), (3, 4)], [(4, 3)]),
        },
        "Plain iteration over the delta rules of path invents path(4, 4) and path(3, 3).",
    ),
    PaperExample(
        "Jixue Liu, Millist Vincent",
        "Derivation of incremental equations for PNF nested relations",
        "tables 1, 2, 4 and 5",
        "The telephone numbers of students, π̂(pstud); pstud ⊕ δpstud gives Jack a number and brings Andrew.",
        _students,
        _table_4,
        {
            "stud_tel": _change(
                [("Jack", _tels("04143", "1435", "2302"))],
                [("Jack", _tels("04143", "1435", "2302", "54111")), ("Andrew", ())],
            )
        },
    ),
)


def run_tour(folder: Path | None, console: Console | None) -> list[Shown]:
    """Run every example on a lake of its own below the folder, and print it if there is a console."""
    with tempfile.TemporaryDirectory(prefix="nabla-papers-") as scratch:
        shown = []
        for number, example in enumerate(EXAMPLES, 1):
            with working(f"{example.authors}", quiet=console is None):
                shown.append(_run(example, str((folder or Path(scratch)) / f"paper{number}")))
            if console is not None:
                _print(shown[-1], console)
        return shown


def _run(example: PaperExample, folder: str) -> Shown:
    lake = nabla.open(folder)
    example.prepare(lake)
    before = {name: _rows(lake, name) for name in example.expected}
    example.change(lake)
    reports = lake.refresh(mode="incremental")
    shown = Shown(example)
    for name in example.expected:
        after = _rows(lake, name)
        shown.found[name] = PaperChange(frozenset(before[name] - after), frozenset(after - before[name]))
        shown.modes[name] = reports[name].mode
    if example.form:
        form = lake.explain(next(iter(example.expected)), form=example.form).form  # type: ignore[arg-type]
        shown.lines = form.lines if form is not None else ()
    return shown


def _rows(lake: Lake, name: str) -> set[Row]:
    return {_plain(row) for row in lake.read(name).collect()}


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _print(shown: Shown, console: Console) -> None:
    example = shown.example
    console.print(f"\n[bold]{escape(example.authors)}[/]: {escape(example.title)}, {escape(example.place)}")
    console.print(f"  {escape(example.says)}")
    for name, found in shown.found.items():
        expected = example.expected[name]
        lines = []
        for sign, ours, theirs in (("∇", found.deleted, expected.deleted), ("Δ", found.inserted, expected.inserted)):
            lines += [(sign, _text(row), row in theirs, row in ours) for row in sorted(ours | theirs, key=repr)]
        console.print(f"  [bold]{escape(name)}[/] ({shown.modes[name]} refresh)")
        console.print(
            table(("", "row", "the paper", "this lake"), lines) if lines else "  no row changes, here and there"
        )
    if shown.lines:
        console.print(f"  as {escape(repr(example.form))} derives it (nabla explain --form):")
        console.print("\n".join(f"    {line}" for line in shown.lines), markup=False, soft_wrap=True)
    if example.remark:
        console.print(f"  [dim]{escape(example.remark)}[/]")
    console.print("  [green]the same[/]" if shown.agrees else "  [red]not the same[/]")


def _text(row: Row) -> str:
    return ", ".join(cell(value) if value is not None else "NULL" for value in row)
