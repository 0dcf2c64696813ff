"""Runs of a project in an environment: only what differs from the lake is built."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nabla.cli.plan import ProjectPlan, plan_project
from nabla.cli.projects import Run, Tell, run_project
from nabla.cli.reading import Reading
from nabla.frontends.pipelines.project import Project
from nabla.lake.environments.environments import complete, settle
from nabla.lake.environments.log import EnvironmentLog

if TYPE_CHECKING:
    from nabla.lake.facade import Lake
    from nabla.planner.steps import Mode

ROUNDS = 3
"""A query over files that returns other rows than the lake's table takes what reads this table out of the environment. That
has to be built in a second round."""


def run_in_environment(
    project: Project, lake: Lake, reading: Reading, planned: ProjectPlan | None, *, mode: Mode | None, tell: Tell
) -> Run:
    """Build what differs from the lake, with all that reads it, into the environment through which `lake` is seen, and refresh
    what it has itself. Everything else is read from the lake."""
    log = lake.context.log
    assert isinstance(log, EnvironmentLog)
    result: Run | None = None
    for _ in range(ROUNDS):
        planned = _settle(project, lake, reading, log, planned or plan_project(project, lake, reading, tell), tell)
        done = run_project(project, lake, reading, mode=mode, rebuild=True, tell=tell, kept=planned.kept)
        result = done if result is None else replace(done, built=(*result.built, *done.built))
        known = {name.lower() for name in lake.status()}
        if all(
            name.lower() in known
            for e in project.definitions
            if e.kind not in ("temporary_view", "sink")
            for name in e.views
        ):
            complete(log)
            break
        planned = None
    assert result is not None
    return result


def _settle(
    project: Project, lake: Lake, reading: Reading, log: EnvironmentLog, planned: ProjectPlan, tell: Tell
) -> ProjectPlan:
    """Take what has changed out of the environment, and plan again: views that read it are to be built, too."""
    names = lake.context.names(lake.context.log.state())
    changed = {names.entry(one.name).name for one in planned.objects if one.cost == "rebuilt"}
    gone = {one.name for one in planned.objects if one.change == "gone"}
    released = log.releasable(planned.as_in_lake, changed - gone)
    settle(log, changed - released, released | gone)
    return plan_project(project, lake, reading, tell) if changed or gone or released else planned
