"""The golden fixtures of maintenance: `python -m nabla.dev.fixtures tests/fixtures/delta` writes them anew.

A fixture is a file of SQL. Its upper part is written by hand: tables and a view. Its lower part says how the view is
maintained, as algebra and as SQL; a review of a change to the calculus reads these parts. The views as Spark resolved
them are stored in `definitions.jsonl` beside the files, so that a test can compare the lower parts without a JVM; with
`--stored` they are taken as they are, and Spark is not asked.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

import nabla
from nabla.algebra.expressions import Column
from nabla.algebra.notation.words import list_in_words
from nabla.calculus.stages import Staged
from nabla.explain.explanation import Explanation, Subject, explain
from nabla.explain.notes import Stored
from nabla.lake.objects.view import View
from nabla.planner.steps import Plan
from nabla.storage.lakelog import LakeLog

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

LINE = "-- Below this line: written by `make fixtures`."
DEFINITIONS = "definitions.jsonl"
_STATEMENT = re.compile(
    r"CREATE (TABLE|NESTED TABLE|VIEW|NESTED VIEW|RULES) (\w+)(?: AS)?\s+(.*?);$", re.MULTILINE | re.DOTALL
)
_NUMBER = re.compile(r"#(\d+)")
_KEY = re.compile(r",\s*PRIMARY KEY \((.*?)\)\s*\)$")

Definition = Mapping[str, Any]


@dataclass(frozen=True)
class FixtureTable:
    name: str
    schema: str
    key: tuple[str, ...]
    nested: bool

    @property
    def columns(self) -> tuple[Column, ...]:
        parsed = sqlglot.parse_one(f"CREATE TABLE t ({self.schema})", read="spark")
        found = parsed.find_all(exp.ColumnDef)
        return tuple(
            Column(c.name, c.args["kind"].sql("spark").lower()) for c in found if c.find_ancestor(exp.DataType) is None
        )


@dataclass(frozen=True)
class Fixture:
    """The upper part of a file: a view, named like the file, and its tables."""

    name: str
    upper: str
    tables: tuple[FixtureTable, ...]
    kind: str
    query: str

    @classmethod
    def read(cls, file: Path) -> Fixture:
        upper = file.read_text(encoding="utf-8").partition(LINE)[0].rstrip()
        tables, views = [], []
        for kind, name, text in _STATEMENT.findall(upper):
            if kind.endswith("TABLE"):
                key = _KEY.search(text)
                schema = text.removesuffix(key[0] if key else ")").removeprefix("(").strip()
                tables.append(
                    FixtureTable(name, schema, tuple(key[1].split(", ")) if key else (), kind == "NESTED TABLE")
                )
            else:
                views.append((name, kind, text))
        ((name, kind, query),) = views
        assert name == file.stem, f"the view of {file.name} is named {name}"
        return cls(name, upper, tuple(tables), kind, query)

    def create(self, lake: Lake) -> None:
        if self.kind == "RULES":
            lake.create_rules(self.name, self.query)
        elif self.kind == "NESTED VIEW":
            lake.create_view(self.name, eval(self.query, {"nested": nabla.nested, "nest": nabla.nest}))
        else:
            lake.create_view(self.name, self.query)

    def text(self, definition: Definition) -> str:
        """The whole file."""
        return "\n".join([self.upper, "", LINE, "", _lower(self.explanation(definition)), ""])

    def view(self, definition: Definition) -> View:
        return View.from_json(self.name, definition)

    def explanation(self, definition: Definition) -> Explanation:
        """The explanation of the view in a lake where every table has changed, as `lake.explain` gives it."""
        view = self.view(definition)
        staged: Staged = view.staged
        relations = (*view.sources, *(stage.state_table for stage in staged.stages))
        return explain(
            Subject(
                plan=Plan(self.name, "skip", "", ()),
                staged=staged,
                view=view.plan,
                definition=self.query,
                obstacles=view.obstacles,
                notes=view.notes,
                last="",
                rows=0,
                version=0,
                sources=view.sources,
                stored={name: Stored(name, "", 0, 0, 0, 0, 0) for name in relations},
                costs={},
                tables={table.name: table.columns for table in self.tables},
            )
        )


def fixtures(folder: Path) -> list[Fixture]:
    return [Fixture.read(file) for file in sorted(folder.glob("*.sql"))]


def stored_definitions(folder: Path) -> dict[str, Definition]:
    lines = (folder / DEFINITIONS).read_text(encoding="utf-8").splitlines()
    return {name: definition for line in lines for name, definition in json.loads(line).items()}


def define(lake: Lake, found: Iterable[Fixture]) -> dict[str, Definition]:
    """Create all tables and views in one lake. A name means the same table in every fixture."""
    tables: dict[str, FixtureTable] = {}
    for fixture in found:
        for table in fixture.tables:
            if tables.setdefault(table.name, table) != table:
                raise ValueError(f"{fixture.name}.sql has another table {table.name} than the fixtures before it")
    for table in tables.values():
        if table.nested:
            lake.create_nested(table.name, table.schema)
        else:
            lake.create_table(table.name, schema=table.schema, key=table.key or None)
    for fixture in found:
        fixture.create(lake)
    entries = LakeLog(lake.path).state().entries
    return {fixture.name: _renumber(_anywhere(entries[fixture.name].definition)) for fixture in found}


def _anywhere(definition: Definition) -> Definition:
    """A definition without the settings of the session, which depend on the machine: its time zone is among them."""
    return {part: value for part, value in definition.items() if part != "settings"}


def _renumber(definition: Definition) -> Definition:
    """The definition with columns numbered in the order of their use, because Spark's numbers differ between sessions."""
    text = json.dumps(definition, ensure_ascii=False)
    numbers = {number: i for i, number in enumerate(dict.fromkeys(_NUMBER.findall(text)), 1)}
    return dict(json.loads(_NUMBER.sub(lambda match: f"#{numbers[match[1]]}", text)))


def _lower(e: Explanation) -> str:
    signed, papers = e.forms
    parts = [_block("Plan, with the law of each operator", e.tree.splitlines())]
    for stage in e.stages:
        by = f" by {', '.join(stage.keys)}" if stage.keys else ""
        parts.append(_block(f"State {stage.name}: {stage.method}{by}", [f"keeps {', '.join(stage.state)}"]))
    parts.append(f"-- Maintenance after a change of {list_in_words(e.may_change)}, as algebra")
    parts += [_block(caption, lines.splitlines()) for caption, lines in signed.blocks]
    parts.append("-- As the papers write it")
    parts += [_block(caption, lines.splitlines()) for caption, lines in papers.blocks]
    parts.append("-- As SQL")
    parts += [f"-- {'or, ' if s.instead else ''}{s.what}\n{s.sql};" for s in e.maintenance if s.sql]
    return "\n\n".join(parts)


def _block(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"-- {title}", *(f"--   {line}".rstrip() for line in lines)])


def resolve(folder: Path) -> None:
    """Let Spark resolve every view, and store the definitions."""
    with tempfile.TemporaryDirectory() as place:
        definitions = define(nabla.open(place), fixtures(folder))
    lines = [json.dumps({name: definition}, ensure_ascii=False) for name, definition in definitions.items()]
    (folder / DEFINITIONS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write(folder: Path) -> None:
    """Write the lower part of every file from the stored definitions."""
    definitions = stored_definitions(folder)
    for fixture in fixtures(folder):
        (folder / f"{fixture.name}.sql").write_text(fixture.text(definitions[fixture.name]), encoding="utf-8")


if __name__ == "__main__":
    if "--stored" not in sys.argv:
        resolve(Path(sys.argv[1]))
    write(Path(sys.argv[1]))
