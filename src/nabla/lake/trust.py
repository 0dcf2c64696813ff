"""Trust: the code of a lake may run if this user made the lake, or trusts it.

A lake keeps the Python functions of its views, and queries may contain code, too. Whoever refreshes a lake of somebody else
would run theirs. So this user's lakes are remembered in the user's folder for configuration, a file each: when one is made,
and when `nabla trust` says so. A record names the folder and the commit that made the lake, so that another lake in the same
place is not taken for it. docs/security.md says who is trusted with what.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from nabla.errors import NablaError
from nabla.frontends.spark_sql.code import find_code
from nabla.storage import locations
from nabla.storage.lakelog import LakeLog

UNTRUSTED = "NABLA_UNTRUSTED"
VARIABLE = "NABLA_TRUST"
"""The environment variable for machines without a user: folders of lakes, or of folders with lakes, between commas."""
EVERY = "*"
"""In the variable: all lakes."""
_OTHERS_WRITE = 0o022
_MOST_RECORDS = 200
"""From so many on, records of temporary lakes that are gone are looked for whenever a lake is made."""


class Trust:
    """Whether an open lake may run code. `given` is the answer of whoever opened it; None looks at what this user trusts."""

    def __init__(self, log: LakeLog, given: bool | None, made: bool = False) -> None:
        self._log = log
        self._answer: Literal[True, False, None] = given
        if made:
            with contextlib.suppress(OSError, NablaError):  # then the lake is known to this process alone
                remember(log)
            self._answer = True if given is None else given

    @property
    def holds(self) -> bool:
        """Whether code may run. A refusal is not remembered: the user may trust the lake meanwhile."""
        if self._answer is None and is_trusted(self._log):
            self._answer = True
        return bool(self._answer)

    def require(self, what: str, place: str) -> None:
        """Raise NABLA_UNTRUSTED where something that is code must not run."""
        if not self.holds:
            raise NablaError(
                UNTRUSTED,
                f"{what} does not run here: this lake is not known to be yours (lake {self._log.path})",
                place=place,
                remedy=f"If you trust everybody who writes to it, say `nabla trust {self._log.path}`, open it with "
                f"trust=True, or put it into {VARIABLE}; see docs/security.md.",
            )

    def check(self, session: SparkSession, text: str) -> None:
        """Raise NABLA_UNTRUSTED for a text that is more than a query over what the session has been given."""
        if not self.holds and (found := find_code(session, text)) is not None:
            self.require(found, "stored query")


def remember(log: LakeLog) -> None:
    """Note that this user made or trusts a lake. NABLA_CONFIG where others could write to the notes."""
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(folder)
    if len(os.listdir(folder)) > _MOST_RECORDS:
        _forget_temporary(folder)
    record = _record(folder, log.path)
    descriptor, scratch = tempfile.mkstemp(dir=folder)  # made for this user alone
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"lake": _place(log.path), "made_by": log.identity}, file)
    os.replace(scratch, record)


def forget(path: locations.Location) -> bool:
    """Trust a lake no longer; False where it was not trusted."""
    try:
        _record(_folder(), path).unlink()
    except FileNotFoundError:
        return False
    return True


def remembered() -> list[str]:
    """The lakes that this user made or trusts. Those for temporary use that are gone are forgotten."""
    _forget_temporary(_folder())
    return sorted(lake for lake, _ in _records(_folder()))


def is_trusted(log: LakeLog) -> bool:
    """Whether the environment names a lake, or this user is known to have made or trusted it."""
    if _is_named_by_environment(log.path):
        return True
    folder = _folder()
    known = _read(_record(folder, log.path))
    if known is None:
        return False
    _check_private(folder)
    return known == (_place(log.path), log.identity)


def _is_named_by_environment(path: str) -> bool:
    named = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    return EVERY in named or any(locations.is_really_in(path, locations.named(name)) for name in named)


def _folder() -> Path:
    """The folder of the notes, by the rules of XDG: a relative path in the variable does not count."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(home) if os.path.isabs(home) else Path.home() / ".config") / "nabla" / "trusted"


def _place(path: locations.Location) -> str:
    named = locations.named(path)
    return named if locations.is_url(named) else os.path.realpath(named)


def _record(folder: Path, path: locations.Location) -> Path:
    return folder / f"{hashlib.sha256(_place(path).encode()).hexdigest()[:32]}.json"


def _read(record: Path) -> tuple[str, str] | None:
    try:
        content = json.loads(record.read_text(encoding="utf-8"))
        return str(content["lake"]), str(content["made_by"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _records(folder: Path) -> Iterator[tuple[str, Path]]:
    for record in folder.glob("*.json"):
        if (known := _read(record)) is not None:
            yield known[0], record


def _forget_temporary(folder: Path) -> None:
    """Forget lakes for temporary use that are gone. Other lakes that are missing may be on a disk that is away."""
    for lake, record in _records(folder):
        if locations.is_really_in(lake, tempfile.gettempdir()) and not os.path.exists(lake):
            record.unlink(missing_ok=True)


def _check_private(folder: Path) -> None:
    """Refuse notes that others can write, because they could make this user trust any lake."""
    for place in (folder, folder.parent):
        found = place.stat()
        if found.st_uid not in (0, os.getuid()) or found.st_mode & _OTHERS_WRITE:
            raise NablaError(
                "NABLA_CONFIG",
                "others may write to the folder that says which lakes you trust",
                place=str(place),
                remedy=f"Make it yours alone: chmod 700 {place}",
            )
