"""Files of tests: YAML with given and expected rows, each value with the line that it stands in."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from nabla.errors import NablaError

CODE = "NABLA_TEST"
_NULLS = ("", "~", "null", "Null", "NULL")
_FORM = "A test has `name`, `given` with rows for each table, and `expect` with rows for each view."


@dataclass(frozen=True)
class Value:
    """A value as it is written: a text, None for NULL, a tuple of values, or a mapping of names to values."""

    content: str | tuple[Value, ...] | Mapping[str, Value] | None
    place: str
    plain: bool = True
    """Whether it stands without quotes."""


@dataclass(frozen=True)
class Rows:
    """Rows of a table or view. A row need not name all columns."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Value], ...]
    place: str
    schema: str | None = None


@dataclass(frozen=True)
class ViewTest:
    """A test: the views in `expect` have these rows if the tables in `given` have those."""

    name: str
    file: Path
    place: str
    given: Mapping[str, Rows]
    expect: Mapping[str, Rows]


def malformed(message: str, place: str, remedy: str = _FORM) -> NablaError:
    return NablaError(CODE, message, place=place, remedy=remedy)


def read_tests(folder: Path, root: Path) -> list[ViewTest]:
    """All tests in the files of a folder, in the order of their names; places are relative to `root`."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".yml", ".yaml") and path.is_file())
    tests = [test for file in files for test in _File(file, root).tests()]
    seen: dict[tuple[Path, str], ViewTest] = {}
    for test in tests:
        if (earlier := seen.get((test.file, test.name))) is not None:
            raise malformed(f'two tests are called "{test.name}"', f"{earlier.place}; {test.place}", "Rename one.")
        seen[test.file, test.name] = test
    return tests


class _File:
    """One file of tests."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path = path
        self.shown = path.relative_to(root) if path.is_relative_to(root) else path

    def tests(self) -> Iterator[ViewTest]:
        try:
            root = yaml.compose(self.path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            place = f"{self.shown}, line {mark.line + 1}" if mark else str(self.shown)
            raise malformed(f"the file is no YAML: {error.problem}", place, "Correct it.") from error
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise malformed(f"the file cannot be read: {error}", str(self.shown), "Correct it.") from error
        if root is None:
            return
        if isinstance(root, MappingNode) and [key.value for key, _ in root.value] == ["tests"]:
            root = root.value[0][1]
        tests = root.value if isinstance(root, SequenceNode) else [root]
        for test in tests:
            yield self._test(test)

    def _test(self, node: Node) -> ViewTest:
        fields = self._fields(node, "a test", ("name", "given", "expect"))
        for wanted in ("name", "expect"):
            if wanted not in fields:
                raise malformed(f'the test has no "{wanted}"', self._place(node))
        name = fields["name"]
        if not isinstance(name, ScalarNode) or not name.value.strip():
            raise malformed("the name of a test is a text", self._place(name))
        expect = self._tables(fields["expect"], "expect")
        if not expect:
            raise malformed(f'the test "{name.value}" expects nothing', self._place(fields["expect"]))
        given = self._tables(fields["given"], "given") if "given" in fields else {}
        return ViewTest(name.value.strip(), self.path, self._place(node), given, expect)

    def _tables(self, node: Node, what: str) -> dict[str, Rows]:
        if isinstance(node, ScalarNode) and node.value in _NULLS:
            return {}
        return {name: self._rows(rows, name) for name, rows in self._fields(node, f'"{what}"').items()}

    def _rows(self, node: Node, name: str) -> Rows:
        """A list of rows, the name of a CSV file, or a mapping with one of both and a schema."""
        if isinstance(node, ScalarNode) and node.value in _NULLS:
            return Rows((), (), self._place(node))
        if isinstance(node, ScalarNode):
            return self._csv(node, name)
        if isinstance(node, MappingNode):
            fields = self._fields(node, f'the rows of "{name}"', ("rows", "csv", "schema"))
            if "rows" in fields and "csv" in fields:
                raise malformed(f'"{name}" has rows and a CSV file', self._place(node), "Keep one of them.")
            schema = fields.get("schema")
            inner = fields.get("csv") or fields.get("rows")
            found = Rows((), (), self._place(node)) if inner is None else self._rows(inner, name)
            declared = schema.value.strip() if isinstance(schema, ScalarNode) else None
            return Rows(found.columns, found.rows, found.place, declared)
        rows = [self._row(row, name) for row in node.value]
        columns = dict.fromkeys(column for row in rows for column in row)
        return Rows(tuple(columns), tuple(rows), self._place(node))

    def _row(self, node: Node, name: str) -> dict[str, Value]:
        fields = self._fields(node, f'a row of "{name}"')
        return {column: self._value(value) for column, value in fields.items()}

    def _csv(self, node: ScalarNode, name: str) -> Rows:
        """The rows of a CSV text, or of the file with that name beside this file. An empty field is NULL."""
        place, text = self._place(node), node.value
        first = node.start_mark.line + 2
        shown = str(self.shown)
        if "\n" not in text.strip():
            file = self.path.parent / text.strip()
            try:
                text = file.read_text(encoding="utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                remedy = "Write a list of rows, or the name of a CSV file beside this one."
                raise malformed(f'the rows of "{name}" cannot be read: {error}', place, remedy) from error
            first, shown = 1, text_place(file, self.path, self.shown)
        return _csv_rows(text, shown, first, place, name)

    def _value(self, node: Node) -> Value:
        place = self._place(node)
        if isinstance(node, SequenceNode):
            return Value(tuple(self._value(part) for part in node.value), place)
        if isinstance(node, MappingNode):
            return Value({key: self._value(part) for key, part in self._fields(node, "a value").items()}, place)
        assert isinstance(node, ScalarNode)
        plain = node.style is None
        return Value(None if plain and node.value in _NULLS else node.value, place, plain)

    def _fields(self, node: Node, what: str, known: Iterable[str] = ()) -> dict[str, Node]:
        if not isinstance(node, MappingNode):
            raise malformed(f"{what} is no mapping of names to values", self._place(node))
        found: dict[str, Node] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise malformed(f"{what} has a name that is no text", self._place(key))
            if key.value in found:
                raise malformed(f'{what} has "{key.value}" twice', self._place(key), "Remove one of them.")
            if known and key.value not in known:
                remedy = f"Known are {', '.join(known)}."
                raise malformed(f'{what} has the unknown key "{key.value}"', self._place(key), remedy)
            found[key.value] = value
        return found

    def _place(self, node: Node) -> str:
        return f"{self.shown}, line {node.start_mark.line + 1}"


def text_place(file: Path, beside: Path, shown: Path) -> str:
    """The name of a file beside a file of tests, shown as that is."""
    return str(shown.parent / file.relative_to(beside.parent)) if file.is_relative_to(beside.parent) else str(file)


def _csv_rows(text: str, shown: str, first: int, place: str, name: str) -> Rows:
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[Mapping[str, Value]] = []
    try:
        columns = tuple(column.strip() for column in next(reader, []))
        if not columns or len(set(columns)) < len(columns):
            raise malformed(f'the first line of the CSV of "{name}" does not name its columns', place, "Correct it.")
        for fields in reader:
            where = f"{shown}, line {reader.line_num + first - 1}"
            if not fields:
                continue
            if len(fields) != len(columns):
                remedy = f"The columns are {', '.join(columns)}."
                raise malformed(f"the line has {len(fields)} fields and not {len(columns)}", where, remedy)
            rows.append({c: Value(field or None, where) for c, field in zip(columns, fields, strict=True)})
    except csv.Error as error:
        raise malformed(f'the CSV of "{name}" cannot be read: {error}', place, "Correct it.") from error
    return Rows(columns, tuple(rows), place)
