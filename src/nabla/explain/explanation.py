"""An explanation of a view: its plan, its state, and the steps of the next refresh, which are those that the engine runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import cleandoc
from typing import Any

from nabla.algebra.clock import CLOCK, reads_clock
from nabla.algebra.expressions import Column
from nabla.algebra.names import is_inner, is_touched, read_name
from nabla.algebra.nodes import At, Node, Scan
from nabla.algebra.notation.tree import tree
from nabla.calculus.by_key import TOUCHED
from nabla.calculus.laws import law_of
from nabla.calculus.obstacles import Obstacle
from nabla.calculus.stages import Stage, Staged, TopRows
from nabla.explain import html, svg, text
from nabla.explain.formulas import Formulas, stage_name
from nabla.explain.notes import Form, NodeNote, ReadNote, StageNote, StepNote, Stored
from nabla.explain.operators import node_notes, stages_by_node
from nabla.explain.sql import sql_text
from nabla.papers.costs import Costs, cost_functions
from nabla.papers.forms import FormName, PaperForm, derive_form
from nabla.papers.pair_notation import pairs_algebra, pairs_sql
from nabla.planner.delta_steps import maintenance_steps
from nabla.planner.steps import Build, Estimate, Iterate, Plan, Produce, Recompute, Replace, Settle, Step, Touch


@dataclass(frozen=True)
class Subject:
    """The facts about a view that an explanation is made from. `stored` has its sources and the states of its stages by
    name, `upstream` the views that would be refreshed before it."""

    plan: Plan
    staged: Staged
    view: Node
    definition: str
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]
    last: str
    rows: int
    version: int
    sources: tuple[str, ...]
    stored: Mapping[str, Stored]
    costs: Mapping[str, Estimate]
    tables: Mapping[str, tuple[Column, ...]]
    upstream: tuple[str, ...] = ()
    form: FormName | None = None


@dataclass(frozen=True)
class Explanation:
    """The explanation of a view. `steps` are those of the next refresh; `maintenance` has the steps of an incremental refresh
    after a change of every relation in `may_change`, even if the next refresh is another one. `estimates` are the planner's,
    `paper_costs` those of the thesis. `form` is the derivation of one of the papers, if one was asked for: then it is what is
    printed."""

    view: str
    version: int
    rows: int
    definition: str
    tree: str
    laws: tuple[str, ...]
    nodes: tuple[NodeNote, ...]
    stages: tuple[StageNote, ...]
    reads: tuple[ReadNote, ...]
    obstacles: tuple[str, ...]
    reasons: tuple[Obstacle, ...]
    notes: tuple[str, ...]
    upstream: tuple[str, ...]
    mode: str
    reason: str
    estimates: dict[str, Estimate]
    paper_costs: Costs | None
    steps: tuple[StepNote, ...]
    maintenance: tuple[StepNote, ...]
    may_change: tuple[str, ...]
    forms: tuple[Form, ...]
    last: str
    form: PaperForm | None = None

    def to_dict(self) -> dict[str, Any]:
        plain = dict(vars(self))
        plain["form"] = self.form.to_dict() if self.form is not None else None
        for name in ("nodes", "steps", "maintenance", "reasons", "forms"):
            plain[name] = [dict(vars(item)) for item in plain[name]]
        plain["stages"] = [{k: v for k, v in vars(s).items() if k != "stored"} for s in self.stages]
        plain["state"] = [s.state_dict() for s in self.stages]
        plain["reads"] = [r.to_dict() for r in self.reads]
        plain["paper_costs"] = dict(vars(self.paper_costs)) if self.paper_costs is not None else None
        plain["estimates"] = {mode: dict(vars(estimate)) for mode, estimate in self.estimates.items()}
        return plain

    def algebra(self) -> str:
        """The maintenance expressions in the signs of the papers."""
        return text.algebra(self)

    def sql(self) -> str:
        """The maintenance expressions as Spark SQL."""
        return text.sql(self)

    def to_svg(self) -> str:
        """The plan as a picture."""
        return svg.svg(self)

    def to_html(self) -> str:
        """The whole explanation as one page that needs no other file."""
        return html.html(self)

    def __str__(self) -> str:
        return text.whole(self) if self.form is None else text.form(self, self.form)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html.notebook(self)


def explain(subject: Subject) -> Explanation:
    plan, staged, view = subject.plan, subject.staged, subject.view
    read = _read_states(plan.steps)
    steps = _step_notes(plan.view, staged, plan.steps)
    kept = steps if plan.mode == "incremental" and steps else _maintenance(subject)
    return Explanation(
        view=plan.view,
        version=subject.version,
        rows=subject.rows,
        definition=cleandoc(subject.definition),
        tree=tree(view, _remarks(view, staged) if not subject.obstacles else lambda node: ""),
        laws=tuple(dict.fromkeys(f"{law.name}: {law.law}   [{law.source}]" for law in map(law_of, view.walk()) if law)),
        nodes=node_notes(view, staged, plan, subject.stored, set(read), subject.rows),
        stages=tuple(_stage_note(stage, subject.stored) for stage in staged.stages),
        reads=tuple(_read_note(subject.stored[s], view, read.get(s, ())) for s in subject.sources),
        obstacles=tuple(str(o) for o in subject.obstacles),
        reasons=subject.obstacles,
        notes=subject.notes,
        upstream=subject.upstream,
        mode=plan.mode,
        reason=plan.reason,
        estimates=dict(subject.costs),
        paper_costs=_paper_costs(subject),
        steps=steps,
        maintenance=kept,
        may_change=(*subject.sources, *["the clock"] * _reads_clock(subject)),
        forms=_forms(kept, subject),
        last=subject.last,
        form=_paper_form(subject, subject.form) if subject.form is not None else None,
    )


def _paper_form(subject: Subject, name: FormName) -> PaperForm:
    return derive_form(name, subject.view, frozenset(subject.sources), subject.tables)


def _paper_costs(subject: Subject) -> Costs | None:
    """The cost functions of the thesis; a view without rules has no incremental expressions."""
    if subject.obstacles:
        return None
    sources = [subject.stored[name] for name in subject.sources]
    return cost_functions(subject.view, {s.name: s.rows for s in sources}, {s.name: s.changed_rows for s in sources})


def _maintenance(subject: Subject) -> tuple[StepNote, ...]:
    """The steps of a refresh after every source has changed, and the clock has moved if the view reads it."""
    if subject.obstacles:
        return ()
    moved = frozenset(subject.sources) | ({CLOCK} if _reads_clock(subject) else set())
    steps = maintenance_steps(subject.staged, moved)
    return _step_notes(subject.plan.view, subject.staged, steps)


def _reads_clock(subject: Subject) -> bool:
    return any(map(reads_clock, subject.view.walk()))


def _forms(steps: tuple[StepNote, ...], subject: Subject) -> tuple[Form, ...]:
    """The maintenance expressions as the engine computes them, and as the papers write them."""
    if not steps:
        return ()
    blocks = tuple(("or, " if s.instead else "") + s.what for s in steps)
    engine = Form("as signed changes", text.SIGNS, tuple(zip(blocks, (s.algebra for s in steps), strict=True)))
    asked = (subject.view, frozenset(subject.sources), subject.tables)
    caption = "∇V is deleted and ΔV inserted"
    queries = pairs_sql(*asked, write=lambda plan: sql_text(plan, lambda scan: scan.table))
    papers = Form("as the papers write it", text.PAIR_SIGNS, ((caption, pairs_algebra(*asked)),), queries)
    return engine, papers


def _remarks(view: Node, staged: Staged) -> Callable[[Node], str]:
    """A remark for each operator: the law of its stage if it has one, else its own law."""
    stages = stages_by_node(view, staged)

    def remark(node: Node) -> str:
        law, stage = law_of(node), stages.get(node)
        if stage is not None:
            return f"·  {stage_name(stage.table)}: {stage.how.law}"
        return f"·  {law.law}" if law is not None and not isinstance(node, Scan) else ""

    return remark


def _stage_note(stage: Stage, stored: Mapping[str, Stored]) -> StageNote:
    return StageNote(
        name=stage_name(stage.table),
        table=stage.table,
        method=stage.method,
        law=stage.how.law,
        source=stage.how.source,
        keys=tuple(stage.node.column(k).label for k in stage.keys),
        state=tuple(_state_label(c.name) for c in stage.state),
        types=tuple(c.type for c in stage.state),
        stored=stored[stage.state_table],
    )


def _state_label(name: str) -> str:
    found = read_name(name)
    if found is None:
        return name
    return f"{found.part} of {found.label}" if found.part else found.label


def _read_note(stored: Stored, view: Node, states: tuple[str, ...]) -> ReadNote:
    scans = (scan for scan in view.scans if scan.table == stored.name)
    return ReadNote(stored, tuple(dict.fromkeys(f for scan in scans for f in scan.fields)), states)


_STATES = {At.DELTA: "change", At.OLD: "before", At.NEW: "after"}


def _read_states(steps: tuple[Step, ...]) -> dict[str, tuple[str, ...]]:
    """The states of each relation that the steps read: its change, its rows before, its rows after."""
    always = {_table_and_state(scan) for step in steps for scan in step.scans(as_a_rule=True) if scan.table != TOUCHED}
    perhaps = {_table_and_state(scan) for step in steps for scan in step.scans() if scan.table != TOUCHED}
    found: dict[str, list[str]] = {}
    for state in ("change", "before", "after"):
        for table in sorted({t for t, s in perhaps if s == state}):
            sure = (table, state) in always
            found.setdefault(table, []).append(state if sure else f"{state} if a min or max was deleted")
    return {table: tuple(states) for table, states in found.items()}


def _table_and_state(scan: Scan) -> tuple[str, str]:
    return scan.table, _STATES[scan.at]


_WHAT: dict[type, Callable[..., str]] = {
    Touch: lambda s: (
        f"find where the change stands among the first rows of {stage_name(s.stage.table)}"
        if isinstance(s.stage, TopRows)
        else f"find the groups of {stage_name(s.stage.table)} that the change touches ({s.stage.method})"
    ),
    Settle: lambda s: f"bring their state in {stage_name(s.stage.table)} up to date",
    Produce: lambda s: "compute the change of the view",
    Replace: lambda s: (
        "compute the rows of the view with the new keys, and add them (limited standard form: none of them was there)"
        if s.only_new
        else "compute the rows of the view with keys that the change touches, to replace the ones there are"
    ),
    Build: lambda s: f"compute the state of {stage_name(s.stage.table)}",
    Iterate: lambda s: (
        f"compute the levels of {stage_name(s.stage.table)}, each from the one before"
        if s.anew
        else f"bring the levels of {stage_name(s.stage.table)} up to date, each from the change of the one before"
    ),
    Recompute: lambda s: "compute the view and compare it with what is stored",
}


def _step_notes(view: str, staged: Staged, steps: tuple[Step, ...]) -> tuple[StepNote, ...]:
    formulas = Formulas(view, staged, steps)
    notes = []
    for step in steps:
        what = _WHAT[type(step)](step)
        notes.append(_query_note(what, formulas.lines(step), step.query))
        if isinstance(step, Settle) and step.query_if_lost is not None:
            why = f"{what}, and read again the groups whose min or max was deleted"
            notes.append(_query_note(why, formulas.lines_if_lost(step), step.query_if_lost, instead=True))
        if isinstance(step, Settle | Iterate) and step.finish is not None:
            name = stage_name(step.stage.table)
            why = f"in the same query, the change of the view from the change of {name}"
            notes.append(StepNote(why, "\n".join(formulas.finish_lines()), "", ()))
    return tuple(notes)


def _query_note(what: str, lines: list[str], query: Node, instead: bool = False) -> StepNote:
    return StepNote(what, "\n".join(lines), sql_text(query, _relation), _relations(query), instead)


def _relations(query: Node) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(_relation, query.scans)))


def _relation(scan: Scan) -> str:
    """The name of a scanned relation in the SQL for people."""
    if scan.table == TOUCHED:
        return "touched keys"
    if is_touched(scan.table):
        return f"groups touched in {stage_name(scan.table)}"
    if is_inner(scan.table):
        state = f"state of {stage_name(scan.table)}"
        return f"change of the {state}" if scan.at is At.DELTA else state
    return {At.OLD: f"{scan.table} before", At.NEW: scan.table, At.DELTA: f"change of {scan.table}"}[scan.at]
