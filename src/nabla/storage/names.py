"""Column names as Delta stores them: `sum(amount)` is shown under its own name and stored under a safe one."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Delta refuses the first group without column mapping. Dots and backquotes would have to be quoted differently by every
# reader (a dot also means "field of"), and control characters break the text formats of the log.
_UNSAFE = re.compile(r"[ ,;{}()=.`\x00-\x1f\x7f]")

RESERVED = frozenset({"_n", "_change_type", "_version", "_timestamp", "_commit_version", "_commit_timestamp"})
"""Names of columns that Nabla or Delta adds beside a table's own."""


def safe(names: Iterable[str], reserved: Iterable[str] = RESERVED) -> tuple[str, ...]:
    """A storable name for each name: itself where that is possible, and no two equal when upper and lower case are.

    Good names are served first, so that a bad name never takes the place of a good one.
    """
    wanted = list(names)
    taken = {name.casefold() for name in reserved}
    chosen: dict[int, str] = {}
    for i, name in enumerate(wanted):
        if name and not _UNSAFE.search(name) and name.casefold() not in taken:
            chosen[i] = name
            taken.add(name.casefold())
    for i, name in enumerate(wanted):
        if i not in chosen:
            chosen[i] = _free(_UNSAFE.sub("_", name) or "_", taken)
            taken.add(chosen[i].casefold())
    return tuple(chosen[i] for i in range(len(wanted)))


def _free(base: str, taken: set[str]) -> str:
    candidate, number = base, 2
    while candidate.casefold() in taken:
        candidate, number = f"{base}_{number}", number + 1
    return candidate
