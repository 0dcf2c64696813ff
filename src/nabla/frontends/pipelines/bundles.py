"""Pipelines as asset bundles of Databricks describe them, read as the specification of a project."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nabla.errors import NablaError


def of_bundle(content: Mapping[Any, Any], file: Path) -> dict[str, Any] | None:
    """The specification that a bundle's file describes under `resources: pipelines:`, or None if the file is no such file.

    Settings of clusters, permissions and environments say nothing about the datasets, and are left out; so are names that
    contain a variable (`${var.catalog}`).
    """
    resources = content.get("resources")
    pipelines = resources.get("pipelines") if isinstance(resources, Mapping) else None
    if not isinstance(pipelines, Mapping) or not pipelines:
        return None
    if len(pipelines) > 1:
        raise NablaError(
            "NABLA_PROJECT",
            f"the file describes {len(pipelines)} pipelines: {', '.join(map(str, pipelines))}",
            place=str(file),
            remedy="Give each of them a file of its own.",
        )
    name, pipeline = next(iter(pipelines.items()))
    libraries = [_library(entry) for entry in pipeline.get("libraries") or ()]
    found = {
        "name": str(name),
        "storage": str(pipeline.get("storage", "pipeline-storage")),
        "catalog": _plain(pipeline.get("catalog")),
        "database": _plain(pipeline.get("schema", pipeline.get("target"))),
        "configuration": {key: str(value) for key, value in (pipeline.get("configuration") or {}).items()},
        "libraries": [entry for entry in libraries if entry],
    }
    return {key: value for key, value in found.items() if value is not None}


def _library(entry: Any) -> Any:
    """`glob`, `file` and `notebook` as globs; packages are installed by whoever runs the project."""
    if isinstance(entry, Mapping):
        for kind in ("file", "notebook"):
            if isinstance(entry.get(kind), Mapping):
                return {"glob": {"include": str(entry[kind].get("path"))}}
        if set(entry) & {"pypi", "maven", "jar", "whl"}:
            return None
    return entry


def _plain(value: Any) -> str | None:
    return str(value) if value is not None and "${" not in str(value) else None
