"""The parts of an explanation: plain records about operators, stages, tables and steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["change", "recompute", "lookup", "rest"]
"""The part of an operator in the next refresh: the change passes through it, its rows are computed again (all of them, or
those of the groups that the change touches), rows of it are looked up, or it rests."""


@dataclass(frozen=True)
class Stored:
    """A stored relation, as the lake's logs know it. `reflects` is the version that the view contains, `now` the current
    one; the state of a stage has no history."""

    name: str
    kind: str
    reflects: int
    now: int
    rows: int
    bytes: int
    files: int
    changed_rows: int = 0


@dataclass(frozen=True)
class NodeNote:
    """An operator of the view. `label` has it on one line; `detail` completes the operator's name, for example with the
    condition of a filter, and `columns` are the columns that it makes. `rows` is known from the logs if `exact`, else it is a
    rough guess. `stage` names the stage that keeps state for it; `kind` is that of a join."""

    id: int
    operator: str
    label: str
    rule: str
    law: str
    source: str
    stage: str
    children: tuple[int, ...]
    role: Role
    rows: int | None
    exact: bool
    table: str = ""
    kind: str = ""
    detail: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageNote:
    """A stage of the view and the state it keeps."""

    name: str
    table: str
    method: str
    law: str
    source: str
    keys: tuple[str, ...]
    state: tuple[str, ...]
    types: tuple[str, ...]
    stored: Stored

    def state_dict(self) -> dict[str, Any]:
        columns = [{"name": n, "type": t} for n, t in zip(self.state, self.types, strict=True)]
        size = {"rows": self.stored.rows, "bytes": self.stored.bytes, "files": self.stored.files}
        return {"stage": self.name, "table": self.table, "key": list(self.keys), "columns": columns, **size}


@dataclass(frozen=True)
class ReadNote:
    """A source of the view. `states` are those that the next refresh reads: its change, its old rows, its new rows."""

    stored: Stored
    columns: tuple[str, ...]
    states: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self.stored), "columns": list(self.columns), "states": list(self.states)}


@dataclass(frozen=True)
class StepNote:
    """A step of a refresh. A step with `instead` may be run in place of the step before it."""

    what: str
    algebra: str
    sql: str
    reads: tuple[str, ...]
    instead: bool = False


@dataclass(frozen=True)
class Form:
    """The maintenance expressions in one notation. `signs` explains the notation, `blocks` are captions with their lines. The
    queries of the form are in `sql`, unless they are those of the steps."""

    title: str
    signs: str
    blocks: tuple[tuple[str, str], ...]
    sql: str = ""
