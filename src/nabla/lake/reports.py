"""The results of the lake's methods: typed records that print well in a terminal and in a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from nabla.calculus.recursion.fixpoint import Round, summary
from nabla.errors import NablaError
from nabla.explain import notebook
from nabla.explain.tables import text_table
from nabla.lake.constraints.violations import Violation

T = TypeVar("T")


def cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v:.3f}" if isinstance(v, float) else f"{k}{at_version(v)}" for k, v in value.items())
    if isinstance(value, tuple) and value and isinstance(value[0], Round):
        return summary(value)
    return str(value)


def at_version(version: object) -> str:
    """The version of a source that a view reflects. A source that was built again since has none that it could reflect."""
    return " (built again since)" if isinstance(version, int) and version < 0 else f"@{version}"


@dataclass(frozen=True)
class _Record:
    def to_dict(self) -> dict[str, Any]:
        return {k: v.isoformat() if isinstance(v, datetime) else v for k, v in asdict(self).items()}

    def __str__(self) -> str:
        return ", ".join(f"{f.name}={cell(getattr(self, f.name))}" for f in fields(self))


class UnknownName(NablaError, KeyError):
    """A report has nothing of that name. It is a KeyError too, as mappings have it."""

    def __str__(self) -> str:
        return Exception.__str__(self)  # a KeyError would show itself in quotes


class _Table(Mapping[str, T], Generic[T]):
    """A mapping by name that shows itself as a table."""

    headings: tuple[str, ...] = ()
    title = ""

    def __init__(self, items: Mapping[str, T]) -> None:
        self._items = dict(items)

    def __getitem__(self, name: str) -> T:
        for key, value in self._items.items():
            if isinstance(name, str) and key.casefold() == name.casefold():
                return value
        raise UnknownName(
            "NABLA_UNKNOWN_TABLE",
            f"there is nothing called {name!r}",
            place=type(self).__name__,
            remedy=f"There are {', '.join(self._items)}." if self._items else "There is nothing at all.",
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def _rows(self) -> list[list[str]]:
        return [[cell(getattr(item, h)) for h in self.headings] for item in self._items.values()]

    def to_dict(self) -> dict[str, Any]:
        return {name: item.to_dict() for name, item in self._items.items()}  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return text_table(self.headings, self._rows())

    __repr__ = __str__

    def _said(self) -> str:
        """A sentence about all of it."""
        return ""

    def _repr_html_(self) -> str:
        return self.to_html(self.title)

    def to_html(self, title: str) -> str:
        """The table for a notebook, under a title."""
        shown = notebook.table(self.headings, [_shown(item, self.headings) for item in self._items.values()], NUMBERS)
        return notebook.card(title, self._said(), shown)


NUMBERS = ("version", "rows", "inserted", "deleted", "seconds", "violations")
"""Columns that are aligned right."""


def _shown(item: object, headings: Sequence[str]) -> list[object]:
    """The cells of an item for a notebook."""
    return [_SHOWN[h](getattr(item, h)) if h in _SHOWN else _plainly(getattr(item, h)) for h in headings]


def _plainly(value: object) -> object:
    return value if value is None or isinstance(value, int | float) else cell(value)


_SHOWN: dict[str, Callable[[Any], object]] = {
    "mode": notebook.badge,
    "inserted": lambda count: notebook.signed(count, "+"),
    "deleted": lambda count: notebook.signed(count, "−"),
    "stale": lambda stale: notebook.badge("stale") if stale else "",
    "name": lambda name: notebook.Html(f"<b>{notebook.cell(name)}</b>"),
}


@dataclass(frozen=True)
class ViewReport(_Record):
    """The report of one refresh of a view. `sources` are the versions it now reflects; `inserted` and `deleted` count the
    rows of the minimal change, whatever the mode."""

    name: str
    mode: str
    reason: str
    inserted: int
    deleted: int
    seconds: float
    sources: dict[str, int]
    version: int
    jobs: int = 0
    estimates: dict[str, float] = field(default_factory=dict)
    job_group: str = ""
    looked_at: int = 0
    """Rows that the driver looked through for those that the change can join, beside what Spark read."""
    rounds: tuple[Round, ...] = ()
    """The rounds of a recursion: the number of rows that each found, by predicate."""
    costs: dict[str, float] = field(default_factory=dict)
    """The seconds of `finding` the change and planning, of `computing` the change of the view, and of `deleting` rows from its
    files and `inserting` others. A view that is written as a whole only inserts."""
    violations: tuple[Violation, ...] = ()
    """Why a view is held back: the constraints that its change would violate, and the rows."""

    def to_dict(self) -> dict[str, Any]:
        said = replace(self, violations=())
        return super(ViewReport, said).to_dict() | {"violations": [v.to_dict() for v in self.violations]}

    def brief(self) -> dict[str, Any]:
        """The report in the form that the lake stores: rounds, which may be thousands, as their number."""
        return self.to_dict() | {"rounds": len(self.rounds)}


class RefreshReport(_Table[ViewReport]):
    title = "Refresh"
    headings = ("name", "mode", "inserted", "deleted", "seconds", "version", "reason")

    def _said(self) -> str:
        modes = Counter(report.mode for report in self.values())
        counts = ", ".join(f"{n} {mode}" for mode, n in modes.items()) or "no views"
        done = [report for report in self.values() if report.mode == "incremental" and "full" in report.estimates]
        took, whole = sum(r.seconds for r in done), sum(r.estimates["full"] for r in done)
        saved = f"; {took:.2f} s instead of an estimated {whole:.2f} s of recomputing" if whole > took else ""
        return f"{counts}{saved}"

    @property
    def held(self) -> tuple[ViewReport, ...]:
        """The views that stay at their last good version, because a constraint would not hold."""
        return tuple(report for report in self.values() if report.mode == "held")


@dataclass(frozen=True)
class Altered(_Record):
    """What a change of columns or definitions did to a table or view: `outcome` is "altered" for a table, "kept" for a view
    that means the same as before, "difference" for one whose feed tells what changed, and "rebuilt" for one that was made
    anew. `reason` says why."""

    name: str
    outcome: str
    reason: str
    inserted: int
    deleted: int
    version: int


class AlterReport(_Table[Altered]):
    """What an alteration did, by the name of the table or view, its readers among them."""

    headings = ("name", "outcome", "reason", "inserted", "deleted", "version")
    title = "alter"


@dataclass(frozen=True)
class Reverted(_Record):
    """A table or view that has an earlier content again: its new version, and the change that led there. The change of a
    large table is not counted."""

    name: str
    version: int
    inserted: int | None
    deleted: int | None


class RevertReport(_Table[Reverted]):
    title = "Reverted"
    headings = ("name", "version", "inserted", "deleted")

    def __str__(self) -> str:
        return (
            super().__str__() if len(self) else "Nothing to revert: tables and views have the rows that they had then."
        )

    __repr__ = __str__


@dataclass(frozen=True)
class Optimized(_Record):
    """The housekeeping of one table or view: `replaced` files became `written`, which saves so many bytes once a vacuum has
    taken the old ones, and `feed_rows` rows left its feed. `note` says why something was left for later."""

    name: str
    replaced: int
    written: int
    saved_bytes: int
    feed_rows: int = 0
    note: str = ""


class OptimizeReport(_Table[Optimized]):
    """What `lake.optimize()` did, by table or view; `log_files` files with `log_bytes` bytes were deleted from logs."""

    headings = ("name", "replaced", "written", "saved_bytes", "feed_rows", "note")

    def __init__(self, items: Mapping[str, Optimized], log_files: int, log_bytes: int) -> None:
        super().__init__(items)
        self.log_files, self.log_bytes = log_files, log_bytes

    def to_dict(self) -> dict[str, Any]:
        return {"objects": super().to_dict(), "log_files": self.log_files, "log_bytes": self.log_bytes}

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.log_files} files of logs were deleted, {self.log_bytes} bytes"

    __repr__ = __str__


@dataclass(frozen=True)
class Checked(_Record):
    """A constraint evaluated from scratch: the number of rows that violate it, and rows that show it."""

    name: str
    on_violation: str
    violations: int
    found: Violation

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "violations": self.violations, **self.found.to_dict()}


class CheckReport(_Table[Checked]):
    title = "Constraints"
    headings = ("name", "on_violation", "violations")

    @property
    def violated(self) -> tuple[Checked, ...]:
        return tuple(checked for checked in self.values() if checked.violations)


@dataclass(frozen=True)
class Verified(_Record):
    """A view that `verify` has looked at: it is its query, or the two cannot be compared, for a reason."""

    name: str
    verdict: Literal["exact", "not comparable"]
    reason: str = ""


class VerifyReport(_Table[Verified]):
    title = "Verified"
    headings = ("name", "verdict", "reason")

    @property
    def not_comparable(self) -> tuple[Verified, ...]:
        return tuple(verified for verified in self.values() if verified.verdict == "not comparable")


@dataclass(frozen=True)
class Status(_Record):
    """A table, view or constraint now. `stale` tells whether a source of the view has moved on; `last` is its last refresh;
    `when` says when a view follows its sources, or what a constraint does when it is violated. The rows of a constraint are
    its violations. `problem` says why a registered table cannot be read now, and stands in the place of `last`, too."""

    name: str
    kind: str
    version: int
    rows: int | None
    stale: bool
    sources: dict[str, int]
    last: str
    updated: datetime | None = None
    obstacles: tuple[str, ...] = ()
    when: str = ""
    problem: str = ""


class LakeStatus(_Table[Status]):
    title = "Lake"
    headings = ("name", "kind", "version", "rows", "stale", "sources", "last")

    def _said(self) -> str:
        kinds = Counter(status.kind for status in self.values())
        stale = sum(status.stale for status in self.values())
        return ", ".join(
            [*(f"{n} {kind}{'s' * (n > 1)}" for kind, n in kinds.items()), *([f"{stale} stale"] * bool(stale))]
        )


@dataclass(frozen=True)
class Event(_Record):
    """One version of a table or view and how it came about."""

    version: int
    timestamp: datetime | None
    operation: str
    inserted: int | None
    deleted: int | None
    seconds: float | None
    reason: str


class History(Sequence[Event]):
    """The commits, newest first."""

    headings = ("version", "timestamp", "operation", "inserted", "deleted", "seconds", "reason")

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = list(events)

    def __getitem__(self, index: Any) -> Any:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)

    def _rows(self) -> list[list[str]]:
        return [[cell(getattr(e, h)) for h in self.headings] for e in self._events]

    def to_dict(self) -> list[dict[str, Any]]:
        return [e.to_dict() for e in self._events]

    def __str__(self) -> str:
        return text_table(self.headings, self._rows())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [_shown(event, self.headings) for event in self._events]
        return notebook.card("History", "", notebook.table(self.headings, rows, NUMBERS))
