"""OpenLineage: what a lake does, as run events that catalogs and schedulers understand.

A refresh, a transaction, a creation or a revert is a run of a job named after the lake (`shop.refresh`); each view that it
computes is a run below it, of the job `shop.revenue`. Datasets are named by the folders of their Delta tables, as other tools
find them, with a symlink to the name in the lake. Events are made and sent in a thread of their own.
"""

from __future__ import annotations

import datetime
import os
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    JobFacet,
    RunFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    processing_engine_run,
    schema_dataset,
    sql_job,
    symlinks_dataset,
)

from nabla.algebra.lineage import DIRECT, How
from nabla.engine import types
from nabla.errors import NablaError
from nabla.lake.events import (
    Committed,
    LakeEvent,
    Observation,
    RunEnded,
    RunStarted,
    ViewEnded,
    ViewPlanned,
    observe_all,
)
from nabla.lake.lineage import LakeLineage, Participation, column_of
from nabla.lake.monitor.sender import Sender
from nabla.lake.objects.graph import is_derived
from nabla.lake.objects.sources import columns_of
from nabla.lake.objects.view import load_view
from nabla.storage import locations
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.lakelog import LakeLog

VERSION = "0.1.0"
PRODUCER = f"urn:nabla:{VERSION}"
TOLD = ("refresh", "create", "transaction", "revert", "propagate")
"""The kinds of runs that OpenLineage hears of: those that write data."""
SUBTYPES: Mapping[How, str] = {
    "identity": "IDENTITY",
    "transformation": "TRANSFORMATION",
    "aggregation": "AGGREGATION",
    "filter": "FILTER",
    "join": "JOIN",
    "group": "GROUP_BY",
    "compare": "JOIN",
    "explode": "FILTER",
    "sort": "SORT",
    "window": "WINDOW",
    "conditional": "CONDITIONAL",
    "unknown": "FILTER",
}


@attr.define
class RefreshRunFacet(RunFacet):
    """How a view was brought up to date: the mode and the reason for it, its minimal change, what the planner expected."""

    mode: str
    reason: str
    inserted: int | None = attr.field(default=None)
    deleted: int | None = attr.field(default=None)
    seconds: float | None = attr.field(default=None)
    estimates: dict[str, float] = attr.field(factory=dict)
    sourcesBefore: dict[str, int] = attr.field(factory=dict)
    sourcesAfter: dict[str, int] = attr.field(factory=dict)


@attr.define
class CommitRunFacet(RunFacet):
    """A commit of the lake: what did it, the lake's version that it made, and the rows that each object gained and lost."""

    operation: str
    version: int
    changes: dict[str, dict[str, int | None]] = attr.field(factory=dict)


@dataclass
class _Told:
    """A run that OpenLineage has heard the start of."""

    job: Job
    views: dict[str, ViewPlanned] = field(default_factory=dict)
    commits: list[Committed] = field(default_factory=list)


class OpenLineageObserver:
    """Turns the events of lakes into OpenLineage's, and gives them to a client."""

    def __init__(self, client: OpenLineageClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._runs: dict[str, _Told] = {}
        self._logs: dict[str, LakeLog] = {}
        self.sender: Sender[LakeEvent] = Sender(self._handle, "OpenLineage's receiver")

    def hear(self, event: LakeEvent) -> None:
        """Note an event that has to be sent."""
        if event.kind in TOLD and isinstance(event, RunStarted | ViewPlanned | Committed | ViewEnded | RunEnded):
            self.sender.put(event)

    def _handle(self, event: LakeEvent) -> None:
        match event:
            case RunStarted():
                self._runs[event.run] = _Told(self._job(event, event.kind, event.kind.upper()))
                self._emit(event, RunState.START, event.run, self._runs[event.run].job, {})
            case ViewPlanned() if event.run in self._runs:
                self._view_started(event, self._runs[event.run])
            case Committed() if event.run in self._runs:
                self._runs[event.run].commits.append(event)
            case ViewEnded() if event.run in self._runs and event.view in self._runs[event.run].views:
                self._view_ended(event, self._runs[event.run])
            case RunEnded() if event.run in self._runs:
                self._run_ended(event, self._runs.pop(event.run))

    def _view_started(self, event: ViewPlanned, told: _Told) -> None:
        if event.view in told.views:  # it is planned again: it was given up, or another writer came first
            told.views[event.view] = event
            return
        state = self._state(event.lake)
        job = self._job(event, event.view, "VIEW", _sql_of(state, event.view))
        told.views[event.view] = event
        facets = self._view_facets(event, told, _refresh_facet(event, None))
        self._emit(event, RunState.START, _view_run(event), job, facets, self._inputs(event.lake, state, event.after))

    def _view_ended(self, event: ViewEnded, told: _Told) -> None:
        planned = told.views.pop(event.view)
        state = self._state(event.lake)
        job = self._job(
            event, event.view, "VIEW", _sql_of(state, event.view)
        )  # a view that was just made has a text now
        facets = self._view_facets(event, told, _refresh_facet(planned, event))
        inputs = self._inputs(event.lake, state, planned.after)
        outputs: list[OutputDataset] = []
        if event.error is not None:
            kind = RunState.FAIL
            facets["errorMessage"] = _error_facet(str(event.error))
        elif event.report is not None and event.report.mode == "held":
            kind = RunState.ABORT
            facets["errorMessage"] = _error_facet(f"held back: {event.report.reason}")
        else:
            kind = RunState.COMPLETE
            report = event.report
            written = (report.inserted, event.bytes) if report else (None, None)
            outputs = [self._output(event.lake, state, event.view, report.version if report else None, *written)]
        self._emit(event, kind, _view_run(event), job, facets, inputs, outputs)

    def _run_ended(self, event: RunEnded, told: _Told) -> None:
        facets: dict[str, RunFacet] = {}
        outputs: list[OutputDataset] = []
        if told.commits:
            facets["nabla_commit"] = _commit_facet(told.commits)
        if event.error is not None:
            facets["errorMessage"] = _error_facet(str(event.error))
        else:
            outputs = self._written_tables(event, told.commits)
        kind = RunState.COMPLETE if event.error is None else RunState.FAIL
        self._emit(event, kind, event.run, told.job, facets, [], outputs)

    def _written_tables(self, event: LakeEvent, commits: Iterable[Committed]) -> list[OutputDataset]:
        """The tables that a run itself wrote; views have runs of their own."""
        state = self._state(event.lake)
        said = {name: info for commit in commits for name, info in commit.objects.items()}
        tables = [n for n in said if n in state.entries and not is_derived(state.entries[n])]
        return [self._output(event.lake, state, n, None, said[n].get("inserted"), None) for n in tables]

    # ------------------------------------------------------------ the parts of an event

    def _emit(
        self,
        event: LakeEvent,
        kind: RunState,
        run: str,
        job: Job,
        facets: Mapping[str, RunFacet],
        inputs: Iterable[InputDataset] = (),
        outputs: Iterable[OutputDataset] = (),
    ) -> None:
        engine = processing_engine_run.ProcessingEngineRunFacet(version=VERSION, name="nabla", producer=PRODUCER)
        at = datetime.datetime.fromtimestamp(event.at, datetime.UTC).isoformat()
        whole = Run(run, {"processing_engine": engine, **facets})
        self._client.emit(
            RunEvent(
                eventTime=at,
                eventType=kind,
                run=whole,
                job=job,
                inputs=[*inputs],
                outputs=[*outputs],
                producer=PRODUCER,
            )
        )

    def _job(self, event: LakeEvent, name: str, kind: str, sql: str | None = None) -> Job:
        job_type = job_type_job.JobTypeJobFacet("BATCH", "NABLA", jobType=kind, producer=PRODUCER)
        facets: dict[str, JobFacet] = {"jobType": job_type}
        if sql:
            facets["sql"] = sql_job.SQLJobFacet(sql, dialect="spark", producer=PRODUCER)
        return Job(self._namespace, f"{_lake_name(event.lake)}.{name}", facets)

    def _view_facets(self, event: LakeEvent, told: _Told, own: RunFacet) -> dict[str, RunFacet]:
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(event.run), job=parent_run.Job(told.job.namespace, told.job.name), producer=PRODUCER
        )
        return {"parent": parent, "nabla_refresh": own}

    def _state(self, lake: str) -> LakeState:
        if lake not in self._logs:
            self._logs[lake] = LakeLog.open(lake)
        return self._logs[lake].state()

    def _inputs(self, lake: str, state: LakeState, versions: Mapping[str, int]) -> list[InputDataset]:
        known = {name: version for name, version in versions.items() if name in state.entries}
        found = []
        for name, version in known.items():
            namespace, place = self._dataset(lake, state.entries[name])
            found.append(InputDataset(namespace, place, facets=self._facets(lake, state, name, version)))
        return found

    def _output(
        self, lake: str, state: LakeState, name: str, version: int | None, rows: int | None, size: int | None
    ) -> OutputDataset:
        entry = state.entries[name]
        namespace, place = self._dataset(lake, entry)
        version = entry.parts["data"].version if version is None else version
        facets = self._facets(lake, state, name, version)
        if is_derived(entry):
            facets["columnLineage"] = self._column_lineage(lake, state, name)
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=rows, size=size, producer=PRODUCER
        )
        return OutputDataset(namespace, place, facets=facets, outputFacets={"outputStatistics": statistics})

    def _facets(self, lake: str, state: LakeState, name: str, version: int) -> dict[str, Any]:
        entry = state.entries[name]
        symlink = symlinks_dataset.Identifier(namespace=f"nabla:{lake}", name=name, type="TABLE")
        return {
            "schema": schema_dataset.SchemaDatasetFacet(fields=_fields(entry), producer=PRODUCER),
            "version": dataset_version_dataset.DatasetVersionDatasetFacet(str(version), producer=PRODUCER),
            "symlinks": symlinks_dataset.SymlinksDatasetFacet([symlink], producer=PRODUCER),
        }

    def _column_lineage(self, lake: str, state: LakeState, name: str) -> Any:
        """The columns that each column is computed from, and those that decide about all of them, of what the view reads."""
        traced = LakeLineage(state, through=False).traced(name)
        rows = {origin: tuple(how) for origin, how in traced.rows.items()}
        fields = {}
        for column in traced.columns:
            own = column_of(column, traced)
            only = {o: tuple(h for h in how if h not in rows.get(o, ())) for o, how in own.conditions.items()}
            inputs = [*self._input_fields(lake, state, own.direct), *self._input_fields(lake, state, only)]
            fields[column] = column_lineage_dataset.Fields(inputFields=inputs)
        return column_lineage_dataset.ColumnLineageDatasetFacet(
            fields=fields, dataset=[*self._input_fields(lake, state, rows)], producer=PRODUCER
        )

    def _input_fields(self, lake: str, state: LakeState, found: Participation) -> Iterable[Any]:
        for origin, hows in found.items():
            if not hows:
                continue
            namespace, place = self._dataset(lake, state.entries[origin.table])
            ways = [
                column_lineage_dataset.Transformation(
                    type="DIRECT" if how in DIRECT else "INDIRECT",
                    subtype=SUBTYPES[how],
                    description=how,
                    masking=False,
                )
                for how in hows
            ]
            yield column_lineage_dataset.InputField(namespace, place, origin.column, ways)

    def _dataset(self, lake: str, entry: Entry) -> tuple[str, str]:
        """The namespace and name of a Delta table by the place where it lies."""
        path = entry.parts["data"].path
        whole = str(path if locations.is_absolute(path) else os.path.join(lake, path))
        if not locations.is_url(whole):
            return "file", whole
        parts = urlsplit(whole)
        return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/")


def _view_run(event: ViewPlanned | ViewEnded) -> str:
    """The id of a view's run, which is the same for all of its events."""
    return str(uuid.uuid5(uuid.UUID(event.run), event.view))


def _lake_name(lake: str) -> str:
    return os.path.basename(lake.rstrip("/")) or "lake"


def _sql_of(state: LakeState, view: str) -> str | None:
    entry = state.entries.get(view)
    if entry is None or not is_derived(entry):
        return None
    own = load_view(view, entry.definition)
    return own.sql


def _refresh_facet(planned: ViewPlanned, ended: ViewEnded | None) -> RefreshRunFacet:
    report = ended.report if ended else None
    return RefreshRunFacet(
        mode=report.mode if report else planned.mode,
        reason=report.reason if report else planned.reason,
        inserted=report.inserted if report else None,
        deleted=report.deleted if report else None,
        seconds=report.seconds if report else None,
        estimates=dict(planned.estimates),
        sourcesBefore=dict(planned.before),
        sourcesAfter=dict(planned.after),
        producer=PRODUCER,
    )


def _commit_facet(commits: list[Committed]) -> CommitRunFacet:
    changes = {
        name: {kind: info.get(kind) for kind in ("inserted", "deleted")}
        for commit in commits
        for name, info in commit.objects.items()
    }
    last = commits[-1]
    return CommitRunFacet(operation=last.operation, version=last.version, changes=changes, producer=PRODUCER)


def _error_facet(message: str) -> RunFacet:
    return error_message_run.ErrorMessageRunFacet(message=message, programmingLanguage="python", producer=PRODUCER)


def _fields(entry: Entry) -> list[schema_dataset.SchemaDatasetFacetFields]:
    if is_derived(entry):
        view = load_view(entry.name, entry.definition)
        kinds = [column.type for column in view.plan.columns]
    else:
        kinds = [f.dataType.simpleString() for f in types.from_json(entry.definition["schema"]).fields]
    named = zip(columns_of(entry), kinds, strict=True)
    return [schema_dataset.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in named]


def send_events(client: OpenLineageClient | None, namespace: str | None) -> tuple[Observation, OpenLineageObserver]:
    """Send the events of all lakes of this process through a client, or through one as the user configured it."""
    namespace = namespace or os.environ.get("OPENLINEAGE_NAMESPACE") or "nabla"
    try:
        made = client or OpenLineageClient()
    except Exception as error:
        raise NablaError(
            "NABLA_OPENLINEAGE",
            f"OpenLineage's client cannot be made: {error}",
            place="its configuration",
            remedy="Correct openlineage.yml or the variables OPENLINEAGE_*.",
        ) from error
    observer = OpenLineageObserver(made, namespace)
    return observe_all(observer.hear), observer
