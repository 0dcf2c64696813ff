"""A failing lake as a Python script over the public interface."""

from __future__ import annotations

from collections.abc import Iterator

from nabla.dev.testing.fuzz.lake_case import LakeCase
from nabla.dev.testing.fuzz.lake_trial import Batch
from nabla.dev.testing.random_data import Row


def lake_script(case: LakeCase, what: str, view: str) -> str:
    quoted = what.replace("\\", "\\\\").replace('"""', "'''")
    return "\n".join([f'"""{quoted}"""', "", *_IMPORTS, *_tables(case), *_views(case), *_batches(case, view, what), ""])


_IMPORTS = [
    "import datetime",
    "import tempfile",
    "from collections import Counter",
    "from decimal import Decimal",
    "",
    "import nabla",
    "",
    "lake = nabla.open(tempfile.mkdtemp())",
]


def _tables(case: LakeCase) -> Iterator[str]:
    for table in case.tables:
        said = f", key={table.declared.key!r}" if table.declared.key else ""
        said += f", foreign_keys={dict(table.declared.foreign)!r}" if table.declared.foreign else ""
        yield f"lake.create_table({table.table.name!r}, schema={table.table.ddl!r}{said}, data={_rows(table.rows)})"


def _views(case: LakeCase) -> Iterator[str]:
    for name, sql in case.views:
        yield f'lake.create_view({name!r}, """{sql}""")'


def _batches(case: LakeCase, view: str, what: str) -> Iterator[str]:
    for batch in case.batches:
        yield ""
        yield from _transaction(batch)
        if "feed" in what or "report" in what:
            yield from _compared_feed(view)
        else:
            yield 'print(lake.refresh(mode="incremental"))'
    yield "lake.verify()"


def _transaction(batch: Batch) -> Iterator[str]:
    yield "with lake.transaction() as tx:"
    for change in batch:
        if change.gone:
            yield f"    tx.delete({change.table!r}, rows={_rows(change.gone)})"
        if change.come:
            yield f"    tx.insert({change.table!r}, {_rows(change.come)})"


def _compared_feed(view: str) -> Iterator[str]:
    yield f"version, before = lake.status()[{view!r}].version, Counter(map(str, lake.read({view!r}).collect()))"
    yield 'print(lake.refresh(mode="incremental"))'
    yield f"after, changes = Counter(map(str, lake.read({view!r}).collect())), lake.changes({view!r}, since=version)"
    yield 'said = {kind: Counter(map(str, changes.where(f"_change_type = \'{kind}\'").drop("_change_type", "_version", '
    yield '    "_timestamp").collect())) for kind in ("insert", "delete")}'
    yield 'assert said["insert"] == after - before, (said["insert"], after - before)'
    yield 'assert said["delete"] == before - after, (said["delete"], before - after)'


def _rows(rows: tuple[Row, ...]) -> str:
    """Arrays are tuples here, which a table takes."""
    if len(rows) < 2:
        return repr(list(rows))
    return "[\n" + "".join(f"    {row!r},\n" for row in rows) + "]"
