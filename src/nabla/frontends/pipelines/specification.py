"""`spark-pipeline.yml`: the one file that makes a folder an Apache Spark Declarative Pipelines project.

The file means the same as for Spark: the same keys, the same globs, and unknown keys are refused. Options of Nabla are in
`configuration` under names that start with `nabla.`.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

import yaml

from nabla.errors import NablaError
from nabla.frontends.pipelines.bundles import of_bundle

SPEC_FILES = ("spark-pipeline.yml", "spark-pipeline.yaml")
KEYS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
REQUIRED = ("name", "storage")
OPTIONS = "nabla."
TABLE_OPTION = "nabla.table."
Mode = Literal["auto", "incremental", "strict", "full"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True)
class TableSource:
    """A table that comes with the project: files to load once, or a Delta table to register. Queries may call it by its
    `qualified` name, if it has one."""

    name: str
    path: Path
    schema: str | None = None
    key: tuple[str, ...] = ()
    qualified: str = ""

    @property
    def full_name(self) -> str:
        return self.qualified or self.name


@dataclass(frozen=True)
class Spec:
    """A pipeline's specification, with Nabla's options as properties."""

    file: Path
    name: str
    storage: str
    catalog: str | None = None
    database: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.file.parent

    @property
    def lake(self) -> Path:
        """The lake of the views: `nabla.lake`, relative to the project, or its folder `lake`."""
        return self.folder / Path(self.configuration.get("nabla.lake", "lake")).expanduser()

    @property
    def mode(self) -> Mode:
        """The mode of refreshes: `nabla.mode`."""
        return cast(Mode, self.configuration.get("nabla.mode", "auto"))

    @property
    def spark_settings(self) -> dict[str, str]:
        return {key: value for key, value in self.configuration.items() if not key.startswith(OPTIONS)}

    @property
    def tables(self) -> tuple[TableSource, ...]:
        """The tables named by `nabla.table.<name>: <path>`, with `nabla.table.<name>.schema` and `.key`."""
        options = {k.removeprefix(TABLE_OPTION): v for k, v in self.configuration.items() if k.startswith(TABLE_OPTION)}
        return tuple(
            TableSource(
                name.split(".")[-1],
                self.folder / Path(options[name]).expanduser(),
                options.get(f"{name}.schema"),
                tuple(column.strip() for column in options.get(f"{name}.key", "").split(",") if column.strip()),
                name,
            )
            for name in options
            if not _is_attribute(name, options)
        )

    @property
    def qualifiers(self) -> tuple[tuple[str, ...], ...]:
        """Prefixes that a dataset's name may have without meaning another dataset."""
        catalog, database = self.catalog or "spark_catalog", self.database or "default"
        return (database,), (catalog, database)

    def files(self) -> list[Path]:
        """The source files that the globs match, each once, in the order of the globs and then of their names."""
        found: dict[Path, None] = {}
        for pattern in self.libraries:
            matching = glob.glob(pattern, root_dir=self.folder, recursive=True, include_hidden=True)
            for path in sorted(Path(os.path.normpath(self.folder / match)) for match in matching):
                if path.is_file() and "__pycache__" not in path.parts:
                    found[path] = None
        return list(found)


def find_spec(folder: Path) -> Path | None:
    """The specification in this folder or the nearest folder above it that has one."""
    for directory in (folder.resolve(), *folder.resolve().parents):
        found = [directory / name for name in SPEC_FILES if (directory / name).is_file()]
        if len(found) > 1:
            raise NablaError(
                "NABLA_PROJECT",
                f"there are two specifications, {found[0].name} and {found[1].name}",
                place=str(directory),
                remedy="Keep one of them.",
            )
        if found:
            return found[0]
    return None


def load_spec(file: Path) -> Spec:
    """Read and check a specification."""
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise _wrong(file, f"the specification cannot be read: {error}", "Correct the YAML.") from error
    if not isinstance(content, dict):
        raise _wrong(file, "the specification is not a mapping of keys to values", f"Write {', '.join(REQUIRED)} …")
    content = of_bundle(content, file) or content
    _check_keys(file, content)
    spec = Spec(
        file=file.resolve(),
        name=str(content["name"]),
        storage=str(content["storage"]),
        catalog=content.get("catalog"),
        database=content.get("database", content.get("schema")),
        configuration=_configuration(file, content.get("configuration") or {}),
        libraries=tuple(_glob(file, entry) for entry in content.get("libraries") or ()),
    )
    _check_options(spec)
    return spec


def _check_keys(file: Path, content: dict[Any, Any]) -> None:
    for key in content:
        if key not in KEYS:
            raise _wrong(
                file, f'unknown key "{key}"', f"Known are {', '.join(KEYS)}; Nabla's options go into configuration."
            )
    for key in REQUIRED:
        if key not in content:
            raise _wrong(file, f'the key "{key}" is missing', f"Add `{key}: …`.")


def _configuration(file: Path, values: object) -> dict[str, str]:
    if not isinstance(values, dict):
        raise _wrong(file, "configuration is not a mapping", "Write one `key: value` a line under configuration.")
    for key, value in values.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise _wrong(
                file, f"the value of {key} in configuration is not text", f'Put it in quotes: {key}: "{value}".'
            )
    return dict(values)


def _is_attribute(name: str, options: Mapping[str, str]) -> bool:
    """Whether an option says something about a table, as `orders.key` does, and is no table itself."""
    table, _, attribute = name.rpartition(".")
    return table in options and attribute in ("schema", "key")


def _glob(file: Path, entry: object) -> str:
    """A file, or a folder with everything below it (`folder/**`): the two forms that pipelines allow."""
    try:
        pattern = entry["glob"]["include"]  # type: ignore[index]
    except (TypeError, KeyError):
        pattern = None
    if not isinstance(pattern, str):
        raise _wrong(file, f"a library is not a glob: {entry}", "Write `- glob: {include: transformations/**}`.")
    if not glob.has_magic(pattern):
        return pattern
    if pattern.endswith("/**") and not glob.has_magic(pattern.removesuffix("/**")):
        return pattern + "/*"
    raise _wrong(
        file, f'the glob "{pattern}" is too complex for a pipeline', "Name a file, or a folder as `folder/**`."
    )


def _check_options(spec: Spec) -> None:
    if spec.mode not in MODES:
        raise _wrong(spec.file, f'nabla.mode is "{spec.mode}"', f"Choose one of {', '.join(MODES)}.")
    for key in spec.configuration:
        table, _, attribute = key.removeprefix(TABLE_OPTION).rpartition(".")
        stray = attribute in ("schema", "key") and TABLE_OPTION + table not in spec.configuration
        is_table = key.startswith(TABLE_OPTION) and not (table and stray)
        if key.startswith(OPTIONS) and key not in ("nabla.lake", "nabla.mode", "nabla.ask_above") and not is_table:
            raise _wrong(
                spec.file,
                f'unknown option "{key}" in configuration',
                "Known are nabla.lake, nabla.mode, nabla.ask_above, nabla.table.NAME, and its .schema and .key.",
            )


def _wrong(file: Path, what: str, remedy: str) -> NablaError:
    return NablaError("NABLA_PROJECT", what, place=str(file), remedy=remedy)
