"""The lake of a command: `--lake`, else the one of the project or the lake that the current folder is in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nabla.cli.output import SpinnerScreen, err
from nabla.errors import NablaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from nabla.frontends.pipelines.specification import Mode, Spec
    from nabla.lake.facade import Lake


@dataclass(frozen=True)
class LocatedLake:
    """A lake's folder, with the project that it belongs to if there is one."""

    lake: Path
    spec: Spec | None = None

    def open(self, *, create: bool = False, environment: str | None = None) -> Lake:
        """Open the lake, or see it through an environment; without `create`, one that is not there is an error."""
        import nabla

        if not create and not is_lake(self.lake):
            raise NablaError(
                "NABLA_NO_LAKE",
                "there is no lake",
                place=str(self.lake),
                remedy="Name one with --lake, build this project's with `nabla run`, or start with `nabla init NAME`.",
            )
        _show_progress()
        return nabla.open(self.lake, spark=self.session(), environment=environment)

    def session(self) -> SparkSession | None:
        """A session with the settings of the project, if it has any."""
        from nabla.engine.spark.session import build_session

        settings = self.spec.spark_settings if self.spec else {}
        return build_session("nabla", settings) if settings else None

    def described(self) -> Spec:
        """The specification of the project."""
        if self.spec is None:
            raise NablaError(
                "NABLA_PROJECT",
                "there is no spark-pipeline.yml here or in a folder above",
                place=str(self.lake),
                remedy="Make a project with `nabla init NAME`, or go to the folder of one.",
            )
        return self.spec

    @property
    def mode(self) -> Mode:
        return self.spec.mode if self.spec else "auto"


def _show_progress() -> None:
    """Let the spinner of a command tell what runs."""
    if err().is_terminal:
        from nabla.lake.monitor.progress import show_on

        show_on(SpinnerScreen())


def is_lake(folder: Path) -> bool:
    """Whether a lake was made here, be it damaged."""
    return (folder / "_nabla").is_dir()


def locate(lake: Path | None, spec: Path | None = None) -> LocatedLake:
    """The place that `--lake` names, the lake of the project that `--spec` names, or the one around the current folder."""
    from nabla.frontends.pipelines.specification import find_spec, load_spec

    if spec is not None:
        if not spec.is_file():
            raise NablaError(
                "NABLA_PROJECT", "there is no such file", place=str(spec), remedy="Name the specification of a project."
            )
        named = load_spec(spec)
        return LocatedLake(named.lake if lake is None else lake.expanduser().absolute(), named)
    folder = Path.cwd() if lake is None else lake.expanduser()
    if lake is not None and not folder.exists():
        return LocatedLake(folder.absolute())
    if is_lake(folder):
        return LocatedLake(folder.resolve())
    spec_file = find_spec(folder)
    if spec_file is not None:
        around = load_spec(spec_file)
        return LocatedLake(around.lake, around)
    return LocatedLake(folder.resolve())
