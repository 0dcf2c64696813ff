"""Views that are defined and not built: what they mean beside what the lake has, and what building them would cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from nabla.engine import types
from nabla.errors import NablaError
from nabla.frontends.spark_sql.define import define
from nabla.lake.context import LakeContext
from nabla.lake.objects.sources import current_source
from nabla.lake.objects.view import View, is_declared_key, load_view
from nabla.lake.plan.meaning import differences, means_same
from nabla.lake.refresh.facts import past_refreshes
from nabla.lake.refresh.rules import columns_with_types, define_rules
from nabla.planner.estimates import SourceFacts, ViewFacts, full_cost
from nabla.storage.catalog import Entry, LakeState


@dataclass(frozen=True)
class Cost:
    """An estimate of building a view: the rows that are read, and the seconds it takes."""

    rows: int
    seconds: float


@dataclass
class Planning:
    """Defines views over a lake as it will be, in the order in which they read each other. Nothing is written: views that are
    not built are known to queries as empty tables."""

    context: LakeContext
    state: LakeState
    views: dict[str, View] = field(default_factory=dict)
    """The views that are new, or mean something else than the lake's."""
    shapes: dict[str, StructType] = field(default_factory=dict)
    """The columns of all that is planned."""
    rows: dict[str, int] = field(default_factory=dict)
    """Estimates of the rows that planned objects will have."""

    def define(self, name: str, query: str | DataFrame) -> View:
        """The definition of a view."""
        existing = self.find(name)
        name = existing.name if existing else name
        tables = list(dict.fromkeys([*self.state.entries, *self.shapes]))
        defined = define(self.context.spark.named_session, query, tables, name, self._is_key)
        view = View.of(name, defined.plan, defined.outputs, defined.sql, tuple(map(str, defined.notes)))
        return replace(view, functions=defined.functions)

    def define_rules(self, name: str, text: str) -> list[View]:
        """The definitions of all predicates of rules."""
        others = (e for e in self.state.entries.values() if not _is_of(self.context.log.origin(e), name))
        stored = {entry.name: columns_with_types(self.context, entry) for entry in others}
        planned = {n: [(f.name, f.dataType.simpleString()) for f in shape] for n, shape in self.shapes.items()}
        return define_rules(self.context, name, text, stored | planned)

    def find(self, name: str) -> Entry | None:
        """The object of the lake that has this name."""
        found = self.context.names(self.state).find(name)
        return None if found is None else self.context.log.origin(found)

    def means_as_in_the_lake(self, view: View) -> bool:
        """Whether the lake itself has a view of this name that means the same, where this is one of its environments."""
        found = self.context.log.whole_state().entries.get(view.name)
        return found is not None and found.kind == "view" and means_same(load_view(view.name, found.definition), view)

    def compare(self, view: View) -> str | None:
        """How a view differs from the lake's view of its name: None if both mean the same, or there is none."""
        entry = self.find(view.name)
        if entry is None or entry.kind != "view":
            return None
        old = load_view(entry.name, entry.definition)
        return None if means_same(old, view) else differences(old, view)

    def add(self, view: View) -> None:
        """Let views that are defined later read this one, as it will be."""
        self.views[view.name] = view
        fields = zip(view.outputs, view.schema.fields, strict=True)
        self.add_table(view.name, StructType([StructField(name, f.dataType) for name, f in fields]))
        entry = self.find(view.name)
        known = entry.facts.get("rows") if entry else None
        self.rows[view.name] = known if known is not None else max(map(self._rows_of, view.sources), default=0)

    def add_table(self, name: str, shape: StructType) -> None:
        """Let views that are defined later read a table that is not there yet."""
        entry = self.find(name)
        self.shapes[entry.name if entry else name] = types.to_stored(shape, shape.names)

    def cost(self, view: View) -> Cost:
        """What it takes to build a view, judging by the rows of its sources and by the times of earlier refreshes."""
        entry = self.find(view.name)
        sources = tuple(SourceFacts(name, self._rows_of(name), 0, 0, False) for name in view.sources)
        rows = int(entry.facts.get("rows") or 0) if entry else 0
        facts = ViewFacts(view.name, rows, sources, past_refreshes(entry) if entry else ())
        return Cost(facts.all_rows, round(full_cost(facts, view.staged).seconds, 2))

    def _rows_of(self, name: str) -> int:
        if name in self.rows or name not in self.state.entries:
            return self.rows.get(name, 0)
        try:
            return current_source(self.context.log, name, self.state).after.rows
        except NablaError:  # a registered table that is away
            return 0

    def _is_key(self, table: str, column: str) -> bool:
        return table not in self.shapes and is_declared_key(self.state.entries[table], column)


def _is_of(entry: Entry, rules: str) -> bool:
    """Whether an object is a predicate of rules."""
    return bool((entry.definition.get("rules") or {}).get("name") == rules)


@contextmanager
def planning(context: LakeContext) -> Iterator[Planning]:
    """Define views without building them, for as long as the context lasts."""
    made = Planning(context, context.log.state())
    with context.spark.planning(made.shapes):
        yield made
