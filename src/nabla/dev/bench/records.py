"""Measurements in a file of JSON lines, so that a long benchmark can be run in pieces and pages can be made from the file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


class Records(Generic[T]):
    """All measurements of a kind, those of earlier runs first where a file is named."""

    def __init__(self, kind: type[T], path: Path | None = None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
        self.all: list[T] = [kind(**json.loads(line)) for line in lines]

    def add(self, one: T) -> None:
        self.all.append(one)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(one)) + "\n")
