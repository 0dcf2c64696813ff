"""What a view is, how it is kept, and what the next refresh would do: the same steps that a refresh executes, as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.pretty import notation, tree
from nabla.algebra.sql import to_sql
from nabla.calculus.laws import law_of
from nabla.calculus.obstacles import Obstacle
from nabla.calculus.outwards import broadcast_side
from nabla.calculus.stages import Stage, Staged
from nabla.planner.steps import Build, Finish, Plan, Produce, Recompute, Settle, Step, Touch


@dataclass(frozen=True)
class StageNote:
    """A stage of the view and the state it keeps."""

    table: str
    method: str
    law: str
    keys: tuple[str, ...]
    state: tuple[str, ...]


@dataclass(frozen=True)
class StepNote:
    """A step of the next refresh."""

    what: str
    algebra: str
    sql: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    view: str
    definition: str
    tree: str
    laws: tuple[str, ...]
    stages: tuple[StageNote, ...]
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]
    mode: str
    reason: str
    estimates: dict[str, str]
    steps: tuple[StepNote, ...]
    last: str

    def to_dict(self) -> dict[str, Any]:
        plain = {k: v for k, v in vars(self).items() if k not in ("stages", "steps")}
        plain["stages"] = [dict(vars(s)) for s in self.stages]
        plain["steps"] = [dict(vars(s)) for s in self.steps]
        return plain

    def __str__(self) -> str:
        lines = [f"view {self.view}", "", *_indented(self.definition), "", "plan", *_indented(self.tree)]
        if self.stages:
            lines += ["", "state"]
            for s in self.stages:
                by = f" by {', '.join(s.keys)}" if s.keys else ""
                lines += [f"  {s.table} {s.method}{by}: {s.law}", f"     keeps {', '.join(s.state)}"]
        for title, items in (("cannot be maintained incrementally", self.obstacles), ("notes", self.notes)):
            if items:
                lines += ["", title, *(f"  {item}" for item in items)]
        lines += ["", f"last refresh: {self.last or 'none'}", f"next refresh: {self.mode}, {self.reason}"]
        for i, step in enumerate(self.steps, 1):
            lines += [f"  {i}. {step.what}", f"     {step.algebra}"]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def _indented(text: str) -> list[str]:
    return ["  " + line for line in text.strip().splitlines()]


def explain(
    plan: Plan,
    staged: Staged,
    view: Node,
    definition: str,
    obstacles: tuple[Obstacle, ...],
    notes: tuple[str, ...],
    last: str,
) -> Explanation:
    return Explanation(
        view=plan.view,
        definition=definition,
        tree=tree(view, _remarks(staged) if not obstacles else lambda node: ""),
        laws=tuple(dict.fromkeys(f"{law.name}: {law.law}   [{law.source}]" for law in map(law_of, view.walk()) if law)),
        stages=tuple(_stage_note(stage) for stage in staged.stages),
        obstacles=tuple(str(o) for o in obstacles),
        notes=notes,
        mode=plan.mode,
        reason=plan.reason,
        estimates={k: str(v) for k, v in (("incremental", plan.incremental), ("full", plan.full)) if v is not None},
        steps=tuple(_step_note(step) for step in plan.steps),
        last=last,
    )


def _remarks(staged: Staged) -> Callable[[Node], str]:
    """The law of each operator: of its stage, where it has one."""
    kept = {(type(s.node), s.node.columns): s.law for s in staged.stages}

    def remark(node: Node) -> str:
        law = law_of(node)
        if law is None or isinstance(node, Scan):
            return ""
        return f"·  {kept.get((type(node), node.columns), law.law)}"

    return remark


def _stage_note(stage: Stage) -> StageNote:
    keys = tuple(stage.node.column(k).label for k in stage.keys)
    return StageNote(stage.table, stage.method, stage.law, keys, tuple(_state_label(c.name) for c in stage.state))


def _state_label(name: str) -> str:
    label, _, suffix = name.partition("#")
    part = suffix.partition(".")[2]
    return f"{part} of {label}" if part else label


_WHAT: dict[type, Callable[..., str]] = {
    Touch: lambda s: f"find the groups of {s.stage.table} that the change touches ({s.stage.method})",
    Settle: lambda s: f"bring their state in {s.stage.table} up to date",
    Produce: lambda s: "compute the change of the view",
    Finish: lambda s: f"in the same query, the change of the view from the change of {s.stage.table}",
    Build: lambda s: f"compute the state of {s.stage.table}",
    Recompute: lambda s: "compute the view and compare it with what is stored",
}


def _step_note(step: Step) -> StepNote:
    if isinstance(step, Finish):
        keep = f" where {step.keep}" if step.keep else ""
        return StepNote(_WHAT[Finish](step), f"π[{', '.join(str(v) for v in step.values)}]{keep}", "", ())
    query = step.query
    scans = dict.fromkeys(_read(n) for n in query.walk() if isinstance(n, Scan))
    text = to_sql(query, lambda scan: f"`{_read(scan)}`", broadcast_side)
    return StepNote(_WHAT[type(step)](step), notation(query), text, tuple(scans))


def _read(scan: Scan) -> str:
    return {At.OLD: f"{scan.table} before", At.NEW: scan.table, At.DELTA: f"change of {scan.table}"}[scan.at]
