"""An explanation for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nabla.algebra.notation.words import list_in_words, plural
from nabla.explain.tables import aligned

if TYPE_CHECKING:
    from nabla.explain.explanation import Explanation
    from nabla.explain.notes import Stored
    from nabla.papers.forms import PaperForm

SIGNS = "d R: the change of R, deleted rows negative;  R₀: R before;  A, B …: stages with stored state;  □A: its change table"
PAIR_SIGNS = "∇R: rows deleted from R;  ΔR: rows inserted;  R₀: R before;  Rᵐ: R after;  Vᵢ: parts of the view, as sets"


def size(count: int) -> str:
    """A number of bytes in a readable unit."""
    amount = float(count)
    for unit in ("bytes", "KB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            break
        amount /= 1000
    return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"


def versions(stored: Stored) -> str:
    return f"version {stored.now}" if stored.reflects == stored.now else f"version {stored.reflects} → {stored.now}"


def whole(e: Explanation) -> str:
    parts = [f"view {e.view}, version {e.version}, {plural(e.rows, 'row')}"]
    parts += [_block("definition", e.definition.strip().splitlines()), _block("plan", e.tree.splitlines())]
    parts += [_block("state", _state(e)), _block("reads", aligned(_reads(e))), _block("costs", aligned(_costs(e)))]
    parts += [_block("cannot be maintained incrementally", e.obstacles), _block("notes", e.notes)]
    return "\n\n".join([part for part in parts if part] + [_next(e)])


def _block(title: str, lines: Iterable[str]) -> str:
    indented = ["  " + line for line in lines]
    return "\n".join([title, *indented]) if indented else ""


def _state(e: Explanation) -> list[str]:
    lines = []
    for s in e.stages:
        by = f" by {', '.join(s.keys)}" if s.keys else ""
        lines.append(f"{s.name}  {s.method}{by}: {s.law}   [{s.source}]")
        lines.append(f"   {plural(s.stored.rows, 'row')}, {size(s.stored.bytes)} in {plural(s.stored.files, 'file')}")
        lines.append(f"   keeps {', '.join(s.state)}")
    return lines


def _reads(e: Explanation) -> list[Sequence[str]]:
    return [
        (
            r.stored.name,
            versions(r.stored),
            plural(r.stored.rows, "row"),
            f"{r.stored.changed_rows:,} changed",
            f"reads {', '.join(r.states)}" if r.states else "not read",
            f"({', '.join(r.columns)})" if r.columns else "",
        )
        for r in e.reads
    ]


def _costs(e: Explanation) -> list[Sequence[str]]:
    estimated: list[Sequence[str]] = [
        (mode, f"{cost.seconds:.2f} s", cost.because) for mode, cost in e.estimates.items()
    ]
    return estimated + ([("thesis", "4.3.2", str(e.paper_costs))] if e.paper_costs is not None else [])


def _next(e: Explanation) -> str:
    lines = [f"last refresh: {e.last or 'none'}", f"next refresh: {e.mode}, {e.reason}"]
    number = 0
    for step in e.steps:
        number += not step.instead
        lines.append(f"  {'   or' if step.instead else f'{number}.'} {step.what}")
    return "\n".join(lines)


def _heading(e: Explanation) -> str:
    if e.maintenance and e.steps == e.maintenance:
        return f"view {e.view}: what the next refresh computes"
    if e.maintenance:
        return f"view {e.view}: what an incremental refresh computes when {list_in_words(e.may_change)} changed"
    return f"view {e.view} cannot be maintained incrementally: {' '.join(e.obstacles)}"


def algebra(e: Explanation) -> str:
    parts = [_heading(e)]
    for form in e.forms:
        parts.append(f"{form.title}\n  {form.signs}")
        parts += [_block(f"{caption}", lines.splitlines()) for caption, lines in form.blocks]
    return "\n\n".join(parts)


def form(e: Explanation, found: PaperForm) -> str:
    """The view's change as one of the papers derives it."""
    heading = f"view {e.view}, in the form {found.name!r}: {found.title}"
    facts = [("from", found.source), ("minimal", found.minimal)]
    if found.reason:
        return "\n\n".join([heading, "\n".join(aligned(facts)), f"the view has no such form: {found.reason}"])
    facts += [("size", found.size), *(("reads", line) for line in _form_reads(e, found))]
    return "\n\n".join([heading, "\n".join(aligned(facts)), "\n".join(found.lines)])


def _form_reads(e: Explanation, found: PaperForm) -> Iterable[str]:
    known = {read.stored.name: read.stored for read in e.reads}
    for table, states in found.reads.items():
        stored = known.get(table)
        sizes = f" ({plural(stored.rows, 'row')}, {stored.changed_rows:,} changed)" if stored is not None else ""
        yield f"{table}{sizes}: {', '.join(states)}"


def sql(e: Explanation) -> str:
    steps = [step for step in e.maintenance if step.sql]
    texts = [f"-- {'or, ' if s.instead else ''}{s.what}\n{s.sql};" for s in steps]
    texts += [f"-- {form.title}\n{form.sql}" for form in e.forms if form.sql]
    return "\n\n".join([f"-- {_heading(e)}", *texts])
