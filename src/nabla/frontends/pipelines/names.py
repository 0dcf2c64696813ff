"""The names of a project's datasets, which may stand in several databases, and the one name space of a lake."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LIVE = "live"
"""The database in which older projects look their own datasets up."""


class ProjectNames:
    """The lake's name for each name of a dataset of a project. Case does not tell names apart."""

    def __init__(self, own: Sequence[tuple[str, ...]]) -> None:
        self._own = {_lower(qualifier) for qualifier in own} | {(LIVE,)}
        self._qualified: set[tuple[str, ...]] = set()

    def declare(self, name: tuple[str, ...]) -> None:
        """Note the full name of a dataset or table."""
        self._qualified.add(_lower(name))

    def in_lake(self, name: Iterable[str]) -> str | None:
        """The name in the lake that a name with a catalog or database stands for, or None if it is no name of the project."""
        parts = tuple(name)
        low = _lower(parts)
        if len(parts) == 1 or low[:-1] in self._own:
            return parts[-1]
        for known in self._qualified:
            shorter, longer = sorted((known, low), key=len)
            if len(shorter) > 1 and longer[-len(shorter) :] == shorter:
                return parts[-1]
        return None


def split_name(name: str) -> tuple[str, ...]:
    """The parts of `catalog.database.name`, each perhaps in backquotes."""
    parts, part, quoted = [], "", False
    for sign in name:
        if sign == "`":
            quoted = not quoted
        elif sign == "." and not quoted:
            parts.append(part)
            part = ""
        else:
            part += sign
    return (*parts, part)


def _lower(name: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in name)
