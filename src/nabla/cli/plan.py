"""`nabla plan`: what a run of the project would do to the lake, and what it would cost. Nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import DataFrame

from nabla.cli.builder import Builder, Tell
from nabla.cli.expectations import check_conditions
from nabla.cli.load import columns_of_source
from nabla.cli.reading import Reading
from nabla.cli.streaming import Target
from nabla.errors import NablaError
from nabla.frontends.pipelines.project import Element, Project
from nabla.lake.objects.graph import is_derived, sources_of
from nabla.lake.objects.view import View, load_view
from nabla.lake.plan.planning import Cost, Planning, planning
from nabla.lake.refresh.schedule import awaited_rows, freshness

if TYPE_CHECKING:
    from nabla.frontends.pipelines.specification import Spec
    from nabla.lake.facade import Lake

Change = Literal["new", "changed", "same", "gone"]
Costs = Literal["loaded", "built", "rebuilt", "recomputed", "read again", "streamed", "refreshed", "kept", "dropped"]

ASK_ABOVE = "nabla.ask_above"
LARGE_ROWS, LARGE_SECONDS = 10_000_000, 60.0
"""A rebuild that reads more rows, or is estimated to take more seconds, is large: a run asks before it."""

STAYS: tuple[Costs, str] = "kept", "the project does not define it; it stays in the lake and is refreshed"
DROPPED: tuple[Costs, str] = "dropped", "its rules do not define it any more"


@dataclass(frozen=True)
class PlannedObject:
    """A table or view in a plan: how the project's definition compares with the lake's, and what a run does about it.

    `rows` are those that are read to build it, `readers` all that is computed from it.
    """

    name: str
    kind: str
    change: Change
    cost: Costs
    reason: str = ""
    place: str = ""
    rows: int | None = None
    seconds: float | None = None
    readers: tuple[str, ...] = ()
    large: bool = False


@dataclass(frozen=True)
class ProjectPlan:
    """What a run would do, in the order in which it would do it."""

    project: str
    lake: str
    objects: tuple[PlannedObject, ...]
    kept: frozenset[tuple[str, str]] = frozenset()
    """The elements of the project that mean what the lake has."""
    as_in_lake: frozenset[str] = frozenset()
    """The views that the project defines as the lake does, whatever an environment of it has."""

    @property
    def large(self) -> tuple[PlannedObject, ...]:
        return tuple(one for one in self.objects if one.large)

    def to_dict(self) -> dict[str, Any]:
        changes = Counter(one.change for one in self.objects)
        counts = {change: changes[change] for change in ("new", "changed", "same", "gone")}
        objects = [asdict(one) for one in self.objects]
        return {"project": self.project, "lake": self.lake, "changes": counts, "objects": objects}


@dataclass(frozen=True)
class Limit:
    """The size from which on a rebuild is large."""

    rows: float = LARGE_ROWS
    seconds: float = LARGE_SECONDS

    @classmethod
    def of(cls, spec: Spec) -> Limit:
        text = spec.configuration.get(ASK_ABOVE)
        if text is None:
            return cls()
        rows, seconds = awaited_rows(text), freshness(text)
        if rows is None and seconds is None:
            raise NablaError(
                "NABLA_PROJECT",
                f'{ASK_ABOVE} is "{text}"',
                place=str(spec.file),
                remedy='Write a number of rows as "1000000 rows", or a time as "5 minutes".',
            )
        return cls(float("inf") if rows is None else rows, float("inf") if seconds is None else seconds)

    def is_exceeded(self, cost: Cost) -> bool:
        return cost.rows > self.rows or cost.seconds > self.seconds


def plan_project(project: Project, lake: Lake, reading: Reading, tell: Tell) -> ProjectPlan:
    """Compare a project with its lake. An error where a dataset cannot be built."""
    limit = Limit.of(project.spec)
    with planning(lake.context) as plans:
        comparison = _Comparison(lake, project.spec, plans, reading, tell)
        try:
            comparison.plan_tables()
            comparison.build(project.definitions)
            comparison.raise_failures()
        finally:
            comparison.forget_temporary_views()
        objects = comparison.objects(project.definitions, limit)
    kept, as_in_lake = frozenset(comparison.same), frozenset(comparison.as_in_lake)
    return ProjectPlan(project.name, str(project.lake), objects, kept, as_in_lake)


class _Comparison(Builder):
    """Goes through a project as a run does, and notes what that would do instead of doing it."""

    def __init__(self, lake: Lake, spec: Spec, plans: Planning, reading: Reading, tell: Tell) -> None:
        super().__init__(lake, spec, spec.mode, True, tell, reading)
        self.plans = plans
        self.noted: dict[str, PlannedObject] = {}
        self.same: set[tuple[str, str]] = set()
        self.as_in_lake: set[str] = set()
        self.temporary: list[str] = []
        self.stale = {name for name, status in lake.status().items() if status.stale}

    def plan_tables(self) -> None:
        for source in self.spec.tables:
            if self.plans.find(source.name) is not None:
                self._note(PlannedObject(source.name, "table", "same", "kept"))
                continue
            self.plans.add_table(source.name, columns_of_source(self.lake, source))
            self._note(PlannedObject(source.name, "table", "new", "loaded", place=str(source.path)))

    def forget_temporary_views(self) -> None:
        """Drop the temporary views of the project: they stand for tables as they are planned."""
        for name in self.temporary:
            self.lake.spark.catalog.dropTempView(name)
        self.reading.forget()

    def objects(self, elements: Sequence[Element], limit: Limit) -> tuple[PlannedObject, ...]:
        """All that was noted, what is computed from it, and what the project does not define."""
        defined = {name.lower() for element in elements for name in element.views} | {n.lower() for n in self.noted}
        rules = {element.name for element in elements if element.kind == "rules"}
        for name, entry in self.plans.state.entries.items():
            if entry.kind == "view" and name.lower() not in defined and not entry.definition.get("serves"):
                dropped = (entry.definition.get("rules") or {}).get("name") in rules
                self._note(PlannedObject(name, "view", "gone", *(DROPPED if dropped else STAYS)))
        graph = self._graph()
        rebuilt = [one.name for one in self.noted.values() if one.cost == "rebuilt"]
        outdated = {reader for name in rebuilt for reader in _readers(name, graph)} - {*rebuilt}
        return tuple(self._completed(one, graph, outdated, limit) for one in self.noted.values())

    def _keep_view(self, element: Element, query: str | DataFrame) -> None:
        self._compare(element, [self.plans.define(element.name, query)])

    def _keep_rules(self, element: Element, text: str) -> None:
        self._compare(element, self.plans.define_rules(element.name, text))

    def _keep_table(self, element: Element, frame: DataFrame, why: NablaError) -> None:
        exists = self.plans.find(element.name) is not None
        if not exists:
            self.plans.add_table(element.name, frame.schema)
        reason = f"{why.code}: {why.message}; read again at every run"
        change: Change = "same" if exists else "new"
        cost: Costs = "read again" if exists else "loaded"
        self._note(PlannedObject(element.name, "table", change, cost, reason, element.place))

    def _keep_stream(self, element: Element, target: Target) -> None:
        if element.kind == "sink":
            target.check()
            return
        exists = self.plans.find(element.name) is not None
        shape = target.visible_shape()
        if not exists:
            self.plans.add_table(element.name, shape)
        change: Change = "same" if exists else "new"
        cost: Costs = "streamed" if exists else "loaded"
        self._note(PlannedObject(element.name, "streaming table", change, cost, "", element.place))

    def _keep_expectations(self, element: Element, query: str | DataFrame) -> None:
        """They are constraints, which a run keeps."""

    def _check_expectations(self, element: Element, frame: DataFrame) -> None:
        """The conditions are looked at, and no rows."""
        check_conditions(element.expectations, frame, element.place)

    def _refresh(self, names: Collection[str]) -> None:
        """Nothing is refreshed for a plan."""

    def _keep_temporary_view(self, element: Element, frame: DataFrame) -> None:
        super()._keep_temporary_view(element, frame)
        self.temporary.append(element.name)

    def _compare(self, element: Element, views: list[View]) -> None:
        """Compare views that are built together: if one of them differs, all of them are built again."""
        found = [self.plans.find(view.name) for view in views]
        for view, entry in zip(views, found, strict=True):
            if entry is not None and entry.kind != "view":
                raise self.lake.context.names(self.plans.state).exists(entry, view)
        if all(found) and all(map(self.plans.means_as_in_the_lake, views)):
            self.as_in_lake |= {view.name for view in views}
        differs = {view.name: said for view in views if (said := self.plans.compare(view))}
        if not differs and all(found):
            self.same.add((element.kind, element.name))
            for view in views:
                self._note(PlannedObject(view.name, "view", "same", "kept", place=element.place))
            return
        for view, entry in zip(views, found, strict=True):
            self.plans.add(view)
            change: Change = "new" if entry is None else "changed" if view.name in differs else "same"
            reason = differs.get(view.name, "" if entry is None else "its rules are built again together")
            cost: Costs = "built" if entry is None else "rebuilt"
            self._note(PlannedObject(view.name, "view", change, cost, reason, element.place))

    def _note(self, one: PlannedObject) -> None:
        self.noted[one.name] = one

    def _graph(self) -> Mapping[str, Iterable[str]]:
        """What each view and constraint reads, after the run."""
        entries = map(self.lake.context.log.origin, self.plans.state.entries.values())
        stored = {entry.name: sources_of(entry) for entry in entries if is_derived(entry)}
        return stored | {name: view.sources for name, view in self.plans.views.items()}

    def _completed(
        self, one: PlannedObject, graph: Mapping[str, Iterable[str]], outdated: set[str], limit: Limit
    ) -> PlannedObject:
        """With the readers, the estimates, and whether it is large."""
        readers = tuple(sorted(_readers(one.name, graph)))
        entry = self.plans.find(one.name)
        cost, reason = one.cost, one.reason
        if one.cost == "kept" and one.kind == "view" and entry is not None:
            if entry.name in outdated:
                cost, reason = "recomputed", reason or "it reads a view that is rebuilt"
            elif entry.name in self.stale:
                cost, reason = "refreshed", reason or "its sources have changed"
        made = PlannedObject(one.name, one.kind, one.change, cost, reason, one.place, readers=readers)
        if cost not in ("built", "rebuilt", "recomputed"):
            return made
        planned = self.plans.views.get(one.name)
        assert planned is not None or entry is not None
        estimate = self.plans.cost(planned or load_view(entry.name, entry.definition))  # type: ignore[union-attr]
        large = cost != "built" and limit.is_exceeded(estimate)
        fields = {**asdict(made), "rows": estimate.rows, "seconds": estimate.seconds, "large": large}
        return PlannedObject(**fields)


def _readers(name: str, graph: Mapping[str, Iterable[str]]) -> set[str]:
    """All that reads an object, directly or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        read = waiting.pop()
        new = {reader for reader, sources in graph.items() if read in sources} - found
        found |= new
        waiting += new
    return found - {name}
