"""Apache Spark Declarative Pipelines projects: the datasets that their `.sql` and `.py` files define, as plain data; and
`.rules` files beside them.

The files run as Spark's own runner runs them, with the functions of `pyspark.pipelines` writing into a registry of ours,
so no Spark Connect server is needed. Queries are not evaluated here: a function is kept, and called when its dataset is built.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.frontends.pipelines.elements import Element
from nabla.frontends.pipelines.registry import Registry, in_file, shown_path
from nabla.frontends.pipelines.specification import Spec, find_spec, load_spec

__all__ = ["Element", "Project", "in_file", "load_project", "python_error", "running"]


@dataclass(frozen=True)
class Project:
    """A pipelines project: its lake, and its datasets in the order of its files."""

    spec: Spec
    definitions: tuple[Element, ...]
    registry: Registry

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def lake(self) -> Path:
        return self.spec.lake

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.spec.configuration


def load_project(
    source: Path | str | Spec,
    spark: SparkSession | None = None,
    around: Callable[[Registry], AbstractContextManager[None]] | None = None,
) -> Project:
    """Read the project in a folder, or the one of a specification. Its Python files see `spark` as the global `spark`, and run
    inside of `around`."""
    spec = source if isinstance(source, Spec) else _spec_in(Path(source))
    registry = Registry(spec)
    with (around or running)(registry):
        for path in spec.files():
            shown = shown_path(path, spec.folder)
            if path.suffix == ".py":
                _run_module(path, str(shown), spark)
            elif path.suffix == ".sql":
                registry.register_sql(_text_of(path, str(shown)), shown)
            elif path.suffix == ".rules":
                registry.register_rules(_text_of(path, str(shown)), shown)
            else:
                raise NablaError(
                    "NABLA_PROJECT",
                    f'"{path.suffix}" is none of .sql, .py and .rules',
                    place=str(shown),
                    remedy="Move the file out of the folders that `libraries` includes.",
                )
    return Project(spec, registry.elements(), registry)


@contextlib.contextmanager
def running(registry: Registry) -> Iterator[None]:
    """While code of a project runs: its folder is the current one, its modules can be imported, and the functions of pipelines
    write into `registry`."""
    spec = registry.spec
    homes = list(dict.fromkeys([spec.folder, spec.folder / "src", *(file.parent for file in spec.files())]))
    folders = [str(home) for home in homes if home.is_dir()]
    before = set(sys.modules)
    sys.path[:0] = folders
    try:
        with contextlib.chdir(spec.folder), registry.offered():
            yield
    finally:
        for folder in folders:
            with contextlib.suppress(ValueError):
                sys.path.remove(folder)
        _keep_apart(set(sys.modules) - before, homes)


def _keep_apart(names: set[str], homes: list[Path]) -> None:
    """Send the project's own modules to Spark's workers with the functions that use them, and let another project of this
    process import its own ones of the same names."""
    for name in names:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        if module is not None and file and any(_is_at(name, Path(file), home) for home in homes):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            del sys.modules[name]


def _is_at(name: str, file: Path, home: Path) -> bool:
    """Whether a module was found in a folder of the project, and not in an environment that lies inside of it."""
    place = home.joinpath(*name.split("."))
    return file in (place.with_suffix(".py"), place / "__init__.py") and name.split(".")[0] != "nabla"


def _spec_in(folder: Path) -> Spec:
    file = find_spec(folder)
    if file is None:
        raise NablaError(
            "NABLA_PROJECT",
            "there is no spark-pipeline.yml here or in a folder above",
            place=str(folder),
            remedy="Make a project with `nabla init NAME`, go to the folder of one, or name its file with --spec.",
        )
    return load_spec(file)


def _text_of(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise NablaError(
            "NABLA_PROJECT", f"the file cannot be read: {error}", place=shown, remedy="Save it as UTF-8."
        ) from error


def _run_module(path: Path, shown: str, spark: SparkSession | None) -> None:
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    if module_spec is None or module_spec.loader is None:
        raise NablaError("NABLA_PROJECT", "Python cannot load the file", place=shown, remedy="Rename it.")
    module = importlib.util.module_from_spec(module_spec)
    if spark is not None:
        module.__dict__["spark"] = spark
    try:
        module_spec.loader.exec_module(module)
    except NablaError:
        raise
    except Exception as error:
        raise python_error(error, path, shown) from error


def python_error(error: Exception, path: Path, shown: str) -> NablaError:
    """An error in a user's Python file, with the line of that file."""
    line = error.lineno if isinstance(error, SyntaxError) else _line_in(path, error.__traceback__)
    what = str(error).strip().splitlines()[0] if str(error).strip() else ""
    return NablaError(
        "NABLA_PROJECT_PYTHON",
        f"{type(error).__name__}: {what}" if what else type(error).__name__,
        place=f"{shown}, line {line}" if line else shown,
        remedy=_remedy(error),
    )


def _remedy(error: Exception) -> str:
    """What to do about it; modules that exist on Databricks only have a remedy of their own."""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in ("databricks", "dbutils"):
        return "That module is there on Databricks only: use `spark`, which files of a project have, instead of its session."
    if isinstance(error, NameError) and error.name in ("dbutils", "display"):
        return f"{error.name} is there on Databricks only: leave it out, or read settings with spark.conf.get."
    if isinstance(error, ModuleNotFoundError):
        return f"Install {error.name}, or put the module into the folder of the project."
    return "Correct the file."


def _line_in(path: Path, trace: TracebackType | None) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == str(path)]
    return lines[-1] if lines else None
