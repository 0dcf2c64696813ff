"""`nabla run`: make the lake hold what a project defines, then bring its views up to date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nabla.cli.builder import Builder, Kept, Tell
from nabla.cli.built import BuiltDataset, Choice
from nabla.cli.load import load_table
from nabla.cli.reading import Reading
from nabla.errors import NablaError
from nabla.frontends.pipelines.project import Element, Project, load_project
from nabla.frontends.pipelines.registry import Registry
from nabla.frontends.pipelines.specification import Spec

if TYPE_CHECKING:
    from nabla.lake.facade import Lake
    from nabla.lake.reports import ViewReport
    from nabla.planner.steps import Mode

__all__ = ["Builder", "BuiltDataset", "Run", "Tell", "choose", "load_tables", "read_project", "run_project"]


@dataclass(frozen=True)
class Run:
    """The outcome of `nabla run`."""

    project: str
    lake: Path
    tables: tuple[str, ...]
    built: tuple[BuiltDataset, ...]
    refreshed: Mapping[str, ViewReport]
    strangers: tuple[str, ...] = field(default=())
    outside: bool = False
    """Whether it has read or written anything outside of the lake: files, streams, sinks."""


def read_project(spec: Spec, lake: Lake) -> tuple[Project, Reading]:
    """Read the project of a specification. Its files see the tables that the lake has by now."""
    readings: list[Reading] = []

    def around(registry: Registry) -> AbstractContextManager[None]:
        readings.append(Reading(lake, registry))
        return readings[0].around()

    project = load_project(spec, lake.spark, around)
    return project, readings[0]


def run_project(
    project: Project,
    lake: Lake,
    reading: Reading,
    *,
    mode: Mode | None,
    rebuild: bool,
    tell: Tell,
    kept: Kept = frozenset(),
    tables: Sequence[str] = (),
    choice: Choice | None = None,
) -> Run:
    """Create what is missing, rebuild what changed if asked to, refresh the rest. Nothing is ever dropped. Definitions that are
    `kept` are known to be as the lake has them. A dataset that fails does not keep others away, and its error is raised at the
    end."""
    mode = mode or project.spec.mode
    choice = choice or Choice()
    builder = Builder(lake, project.spec, mode, rebuild, tell, reading, kept, choice)
    try:
        builder.build(project.definitions)
    finally:
        reading.forget()
    tell("Refreshing")
    reports = _refresh(lake, project.definitions, mode, choice, builder.failed, tell)
    builder.raise_failures()
    built = builder.count_expectations()
    known = {name.lower() for element in project.definitions for name in element.views}
    strangers = [name for name, status in lake.status().items() if status.kind == "view" and name.lower() not in known]
    return Run(project.name, project.lake, tuple(tables), built, dict(reports), tuple(strangers), builder.outside)


def _refresh(
    lake: Lake, elements: Sequence[Element], mode: Mode, choice: Choice, failed: Mapping[str, object], tell: Tell
) -> Mapping[str, ViewReport]:
    def progress(report: ViewReport) -> None:
        tell(f"Refreshed {report.name}")

    if choice.names is None:
        return lake.refresh(mode=mode, progress=progress)
    chosen = {name.lower() for element in elements if choice.has(element) for name in element.views} - failed.keys()
    views = [name for name, status in lake.status().items() if status.kind == "view" and name.lower() in chosen]
    full = [name for name in views if name.lower() in choice.full]
    reports = dict(lake.refresh(*full, mode="full", progress=progress)) if full else {}
    others = [name for name in views if name not in full]
    return reports | (dict(lake.refresh(*others, mode=mode, progress=progress)) if others else {})


def choose(project: Project, refresh: Sequence[str], full: Sequence[str], every: bool) -> Choice:
    """The datasets of `--refresh`, `--full-refresh` and `--full-refresh-all`."""
    names = {name.lower(): name for element in project.definitions for name in (*element.views, element.name)}
    if every:
        return Choice(frozenset(names), frozenset(names))
    if not refresh and not full:
        return Choice()
    chosen = [project.registry.names.in_lake(name.split(".")) or name for name in (*refresh, *full)]
    unknown = [name for name in chosen if name.lower() not in names]
    if unknown:
        raise NablaError(
            "NABLA_UNKNOWN_DATASET",
            f'the project defines no "{unknown[0]}"',
            place=str(project.spec.file),
            remedy=f"It defines {', '.join(names.values())}.",
        )
    low = [name.lower() for name in chosen]
    return Choice(frozenset(low), frozenset(low[len(refresh) :]))


def load_tables(lake: Lake, spec: Spec, tell: Tell) -> tuple[str, ...]:
    present = {name.lower() for name in lake.status()}
    missing = [source for source in spec.tables if source.name.lower() not in present]
    for source in missing:
        tell(f"Loading {source.name}")
        load_table(lake, source)
    return tuple(source.name for source in missing)
