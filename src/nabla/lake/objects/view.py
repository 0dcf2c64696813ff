"""A view as the lake stores it: its algebra, so that any process can maintain it, and its text for people."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructField, StructType

from nabla._cached import cached_property
from nabla.algebra.clock import functions
from nabla.algebra.json import load_plan, to_data
from nabla.algebra.nodes import Node, Opaque, Recursion, Scan
from nabla.calculus.obstacles import Obstacle, expressions, obstacles
from nabla.calculus.partials import FORM
from nabla.calculus.stages import Staged, cut
from nabla.constraints import key as key_query
from nabla.engine import types
from nabla.engine.execute import Task
from nabla.engine.spark.meaning import Settings, is_ansi, known_settings
from nabla.frontends.datalog.denials import Denial
from nabla.frontends.datalog.stored import StoredRules, stored_rules
from nabla.frontends.spark_sql.python_udfs import PythonFunction
from nabla.planner.delta_steps import maintenance_steps
from nabla.planner.steps import StepMemory
from nabla.storage.catalog import AHEAD, AS_SET, DELTA_FEED, DENIED, FOLLOW, RELIES_ON, Entry, LakeState
from nabla.storage.names import safe

if TYPE_CHECKING:
    from nabla.planner.determined import RecoveredTable


@dataclass(frozen=True, eq=False)
class View:
    """`outputs` are the columns' names as users see them, `stored` as Delta keeps them; `nested` is the text of the nested
    expression that it was made from, if it was, and `key` its key if it is computed key by key. `rules` is the program that
    defines it. The plan of a recursive predicate has its columns only: its rules are evaluated together with those it
    depends on. `maintain` says when it follows its sources, or each of them; `ahead`, whether its change may be computed before
    it is refreshed. A constraint is a view that must stay empty: `on_violation` says what happens otherwise. `serves` names the
    view that this one is auxiliary to, `functions` are the Python functions that it calls, `form` is that of its hidden states.
    `settings` are those of the session that made it and decide what it means. `denied` are the rules of a constraint that was
    made from a denial. `relies_on` has the enforced keys by which a detached view reads its tables' rows from its own.
    A view that is to `follow` its tables' columns gets those that `SELECT *` means then."""

    name: str
    plan: Node
    outputs: tuple[str, ...]
    stored: tuple[str, ...]
    sql: str | None
    notes: tuple[str, ...]
    nested: str | None = None
    rules: StoredRules | None = None
    key: tuple[str, ...] = ()
    maintain: str | Mapping[str, str] = "deferred"
    on_violation: str | None = None
    serves: str | None = None
    functions: tuple[PythonFunction, ...] = ()
    form: int = FORM
    settings: Settings = ()
    denied: StoredRules | None = None
    ahead: bool = False
    relies_on: tuple[tuple[str, tuple[str, ...]], ...] = ()
    delta_feed: bool = False
    follow: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        plan: Node,
        outputs: tuple[str, ...],
        sql: str | None,
        notes: tuple[str, ...],
        nested: str | None = None,
        rules: StoredRules | None = None,
        key: tuple[str, ...] = (),
    ) -> View:
        return cls(name, plan, outputs, safe(outputs), sql, notes, nested, rules, key)

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": to_data(self.plan),
            "outputs": list(self.outputs),
            "stored": list(self.stored),
            "sql": self.sql,
            "notes": list(self.notes),
            "layout": self.layout,
            "nested": self.nested,
            "rules": self.rules.to_json() if self.rules else None,
            "key": list(self.key),
            "maintain": self.maintain if isinstance(self.maintain, str) else dict(self.maintain),
            "on_violation": self.on_violation,
            "serves": self.serves,
            "functions": [function.to_json() for function in self.functions],
            "form": self.form,
            "settings": dict(self.settings),
            **({DENIED: self.denied.to_json()} if self.denied else {}),
            **({AHEAD: True} if self.ahead else {}),
            **({AS_SET: True} if self.once else {}),
            **({DELTA_FEED: True} if self.delta_feed else {}),
            **({FOLLOW: True} if self.follow else {}),
            **({RELIES_ON: {table: list(key) for table, key in self.relies_on}} if self.relies_on else {}),
        }

    @classmethod
    def from_json(cls, name: str, json: Mapping[str, Any]) -> View:
        return cls(
            name,
            load_plan(json["plan"]),
            tuple(json["outputs"]),
            tuple(json["stored"]),
            json["sql"],
            tuple(json["notes"]),
            json.get("nested"),
            stored_rules(json["rules"]) if json.get("rules") else None,
            tuple(json.get("key", ())),
            json.get("maintain", "deferred"),
            json.get("on_violation"),
            json.get("serves"),
            tuple(PythonFunction(**function) for function in json.get("functions", ())),
            json.get("form", 1),
            known_settings(json.get("settings", {})),
            stored_rules(json[DENIED]) if json.get(DENIED) else None,
            json.get(AHEAD, False),
            tuple((table, tuple(key)) for table, key in json.get(RELIES_ON, {}).items()),
            json.get(DELTA_FEED, False),
            json.get(FOLLOW, False),
        )

    @property
    def kind(self) -> str:
        return "view" if self.on_violation is None else "constraint"

    @property
    def recursive(self) -> bool:
        return self.rules is not None and self.rules.program.recursive(self.name)

    @cached_property
    def once(self) -> bool:
        """Whether it has a recursion of sets, which Spark SQL cannot say."""
        return any(isinstance(node, Recursion) and node.once for node in self.plan.walk())

    @property
    def group(self) -> tuple[str, ...]:
        """The views that are refreshed together with it, itself among them."""
        return self.rules.program.stratum(self.name).predicates if self.rules and self.recursive else (self.name,)

    @cached_property
    def asked(self) -> Denial | None:
        """The denial, if its violations are asked for. Its plan has its columns only."""
        denial = Denial(self.denied.program) if self.denied else None
        return denial if denial and denial.is_asked else None

    @cached_property
    def recovered(self) -> tuple[RecoveredTable, ...]:
        """The tables whose rows it reads from its own."""
        from nabla.planner.self_maintenance import readable_from_itself  # which few views need

        return readable_from_itself(self.plan, dict(self.relies_on)) if self.relies_on else ()

    @cached_property
    def obstacles(self) -> tuple[Obstacle, ...]:
        return obstacles(self.plan)

    @cached_property
    def clock(self) -> frozenset[str]:
        """The functions of the clock that it reads."""
        found = (e for node in self.plan.walk() for e, _ in expressions(node))
        return frozenset().union(*map(functions, found))

    @cached_property
    def staged(self) -> Staged:
        """The view cut into stages; a view that can only be recomputed has none."""
        return Staged((), self.plan) if self.obstacles else cut(self.plan, self.key, self.form, is_ansi(self.settings))

    @cached_property
    def derive(self) -> StepMemory:
        """Derives the steps that maintain it, and remembers them."""
        return StepMemory(maintenance_steps)

    @cached_property
    def layout(self) -> list[list[str]]:
        """The shape of every stage's state: a lake whose states have another one must rebuild them."""
        return [[s.method, *(f"{c.name} {c.type}" for c in s.state)] for s in self.staged.stages]

    @cached_property
    def schema(self) -> StructType:
        """The stored schema of the view's table."""
        raw = [StructField(n, types.type_of(c.type)) for n, c in zip(self.stored, self.plan.columns, strict=True)]
        return types.to_stored(StructType(raw), self.stored)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The tables and views it reads, each once."""
        if self.asked:
            return self.asked.inputs
        if self.rules and self.recursive:
            return self.rules.program.sources(self.name)
        found: dict[str, None] = {}
        for node in self.plan.walk():
            if isinstance(node, Scan):
                found[node.table] = None
            elif isinstance(node, Opaque):
                found |= dict.fromkeys(node.tables)
        own = {node.table for node in self.plan.walk() if isinstance(node, Recursion)}
        return tuple(name for name in found if name not in own)

    @cached_property
    def opaque(self) -> bool:
        return any(isinstance(node, Opaque) for node in self.plan.walk())


def task_of(views: Mapping[str, View]) -> Task:
    """A view, or those that go together, as the engine computes them."""
    view = next(iter(views.values()))
    group = view.rules.program.group(view.name) if view.rules and view.recursive else None
    schemas = {name: own.schema for name, own in views.items()}
    return Task(schemas, group, view.sql if view.opaque else None, view.asked)


class ViewCache:
    """The views that were loaded last, by the identity of their definitions. Loading one takes milliseconds, and a refresh
    asks for each many times. The storage gives equal definitions as one object, so that a new state of the lake finds the
    views of the one before. A definition is kept with its view, so that no other object gets its id."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._views: OrderedDict[int, tuple[Mapping[str, Any], View]] = OrderedDict()
        self._lock = threading.Lock()

    def load(self, name: str, definition: Mapping[str, Any]) -> View:
        """The view of a definition under a name."""
        with self._lock:
            _, view = self._views.pop(id(definition), (definition, None))
            if view is None or view.name != name:
                view = View.from_json(name, definition)
            self._views[id(definition)] = definition, view  # the view that was asked for last comes last
            while len(self._views) > self._most:
                self._views.popitem(last=False)
            return view

    def __len__(self) -> int:
        return len(self._views)


_LOADED = ViewCache(1024)


def load_view(name: str, definition: Mapping[str, Any]) -> View:
    """The view of a stored definition."""
    return _LOADED.load(name, definition)


def enforced_key(state: LakeState, table: str) -> tuple[str, ...]:
    """The declared key of a table, if a constraint refuses transactions that violate it."""
    entry = state.entries[table]
    columns = tuple(entry.definition.get("key") or ()) if entry.kind == "table" else ()
    if not columns:
        return ()
    query = key_query(table, *columns)
    rules = (load_view(e.name, e.definition) for e in state.entries.values() if e.kind == "constraint")
    return columns if any(rule.sql == query and rule.on_violation == "reject" for rule in rules) else ()


def is_declared_key(entry: Entry, column: str) -> bool:
    """Whether a column alone is the declared key of a table."""
    return entry.kind == "table" and list(entry.definition["key"] or ()) == [column]
