"""The folders in which Spark notes how far streams are. They lie in the lake, one for each stream and generation, and name the
table that they belong to."""

from __future__ import annotations

import json
import os
import re
import shutil
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

from nabla.errors import NablaError
from nabla.lake.streams.batches import Progress
from nabla.storage.boundary import STREAMS_FOLDER

_OWNER = "nabla.json"


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint of a stream into a target. `owner` says which table it belongs to; `files` has the inputs that the stream
    reads from the lake."""

    folder: Path
    owner: str

    @property
    def state(self) -> Path:
        """The folder for Spark."""
        return self.folder / "state"

    def input(self, name: str) -> Path:
        """The folder with the changes of a table or view that the stream reads."""
        return self.folder / "inputs" / _safe(name)

    def open(self, progress: Progress, remedy: str) -> None:
        """Make the folder, or check that it is there and belongs to this table."""
        note = self.folder / _OWNER
        if not note.is_file():
            if progress.batch >= 0:
                raise NablaError(
                    "NABLA_CHECKPOINT",
                    "the checkpoint of the stream is gone, so that nobody knows what it has read",
                    place=str(self.folder),
                    remedy=remedy,
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            _write(note, json.dumps({"table": self.owner}))
        found = _read_owner(note)
        if found != self.owner:
            raise NablaError(
                "NABLA_CHECKPOINT",
                f"the checkpoint belongs to another table, {found}",
                place=str(self.folder),
                remedy=remedy,
            )
        self.state.mkdir(exist_ok=True)

    def recall(self, key: str) -> str | None:
        """A text that was remembered for this stream."""
        file = self.folder / f"{_safe(key)}.txt"
        return file.read_text(encoding="utf-8") if file.is_file() else None

    def remember(self, key: str, value: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self.folder / f"{_safe(key)}.txt", value)


def checkpoint_of(lake: str, target: str, stream: str, generation: int, owner: str) -> Checkpoint:
    """The checkpoint of a stream."""
    return Checkpoint(_home(lake, target, stream) / str(generation), owner)


def newest_generation(lake: str, target: str, stream: str) -> int:
    """The highest generation that has a checkpoint, -1 if there is none."""
    home = _home(lake, target, stream)
    found = [int(one.name) for one in home.iterdir() if one.name.isdecimal()] if home.is_dir() else []
    return max(found, default=-1)


def forget(lake: str, target: str, stream: str, before: int) -> None:
    """Delete the checkpoints of earlier generations."""
    home = _home(lake, target, stream)
    for one in home.iterdir() if home.is_dir() else ():
        if one.name.isdecimal() and int(one.name) < before:
            shutil.rmtree(one, ignore_errors=True)


def _home(lake: str, target: str, stream: str) -> Path:
    return Path(lake) / STREAMS_FOLDER / _safe(target) / _safe(stream)


def _safe(name: str) -> str:
    """A name as the name of a folder, whatever signs it has."""
    quoted = urllib.parse.quote(name, safe="").replace(".", "%2E")
    return re.sub("^_", "%5F", quoted)  # Spark does not look into folders that begin with an underscore


def _write(file: Path, text: str) -> None:
    """Write a file whole, or not at all."""
    new = file.with_name(f".{file.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    os.replace(new, file)


def _read_owner(note: Path) -> str:
    try:
        return str(json.loads(note.read_text(encoding="utf-8"))["table"])
    except (OSError, ValueError, KeyError, TypeError):
        return "one that its note does not name"
