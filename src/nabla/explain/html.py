"""An explanation as an HTML page: the drawing, and below it the rest. The page needs no network and no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from nabla.algebra.notation.words import plural
from nabla.explain.svg import svg
from nabla.explain.tables import html_table
from nabla.explain.text import SIGNS, size, versions

if TYPE_CHECKING:
    from nabla.explain.explanation import Explanation

_STYLE = """
:root { color-scheme: light; --ink: #1f2937; --muted: #5b6472; --line: #e3e6eb; --accent: #d97706; }
body { font: 15px/1.5 Inter, 'Segoe UI', Helvetica, Arial, sans-serif; color: var(--ink); background: #f4f5f7; margin: 0; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 26px; margin: 0 0 2px; } h1 small { font-size: 15px; font-weight: 400; color: var(--muted); }
h2 { font-size: 16px; margin: 0 0 10px; }
p { margin: 4px 0 0; } .muted { color: var(--muted); }
section { background: #fff; border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px; margin-top: 18px;
  overflow-x: auto; }
pre { font: 12.5px/1.55 ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace; background: #f8f9fb;
  border: 1px solid var(--line); border-radius: 7px; padding: 10px 12px; margin: 8px 0 0; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; } th { font-size: 12.5px; color: var(--muted); font-weight: 600; }
th, td { padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
details { border-top: 1px solid var(--line); padding: 8px 0; } details:first-of-type { border-top: 0; }
summary { cursor: pointer; } .mode { color: var(--accent); font-weight: 600; } .code { font-weight: 600; }
svg { display: block; max-width: 100%; height: auto; margin: 0 auto; }
svg g:hover > rect, svg g:hover > path { filter: brightness(0.97); }
"""


def html(e: Explanation) -> str:
    body = [f"<h1>{escape(e.view)} <small>version {e.version}, {plural(e.rows, 'row')}</small></h1>", _next(e)]
    body += [f"<section>{svg(e)}</section>", _section("Definition", f"<pre>{escape(e.definition.strip())}</pre>")]
    body += [_reasons(e), _steps(e), _costs(e), _reads(e), _state(e), _laws(e)]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(e.view)}: how it is kept</title>'
        f"<style>{_STYLE}</style></head>\n<body><main>{''.join(body)}</main></body></html>\n"
    )


def notebook(e: Explanation) -> str:
    """The drawing and a sentence about the next refresh. Styles are inline, because the notebook owns the page's styles."""
    said = f"<b>{escape(e.view)}</b>, next refresh: <b>{escape(e.mode)}</b>, {escape(e.reason)}"
    reasons = "".join(f"<div>{escape(o)}</div>" for o in e.obstacles)
    return f"<div><div>{said}</div>{reasons}<div style='overflow-x:auto'>{svg(e)}</div></div>"


def _next(e: Explanation) -> str:
    first = f' <span class="muted">after {escape(", ".join(e.upstream))}</span>' if e.upstream else ""
    said = f'Next refresh: <span class="mode">{escape(e.mode)}</span>, {escape(e.reason)}{first}'
    return f'<p>{said}</p><p class="muted">Last refresh: {escape(e.last or "none")}</p>'


def _section(title: str, content: str) -> str:
    return f"<section><h2>{title}</h2>{content}</section>" if content else ""


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> str:
    return html_table(headings, rows, numbers) if rows else ""


def _reasons(e: Explanation) -> str:
    rows = [(r.code, r.what, r.place, r.remedy) for r in e.reasons]
    found = _table(("code", "what", "where", "what to do"), rows)
    notes = "".join(f"<p>{escape(n)}</p>" for n in e.notes)
    return _section("Cannot be maintained incrementally", found) + _section("Notes", notes)


def _steps(e: Explanation) -> str:
    if not e.maintenance:
        return ""
    title = "Steps of the next refresh" if e.steps == e.maintenance else "Steps of an incremental refresh"
    out, number = [f'<p class="muted">{escape(SIGNS)}</p>'], 0
    for step in e.maintenance:
        number += not step.instead
        what = f"{'or' if step.instead else f'{number}.'} {escape(step.what)}"
        sql = (
            f"<details><summary class='muted'>SQL</summary><pre>{escape(step.sql)}</pre></details>" if step.sql else ""
        )
        shown = "" if step.instead else " open"
        out.append(f"<details{shown}><summary>{what}</summary><pre>{escape(step.algebra)}</pre>{sql}</details>")
    more = [
        f"<details><summary>{escape(form.title)}</summary>"
        + "".join(f"<p>{escape(caption)}</p><pre>{escape(lines)}</pre>" for caption, lines in form.blocks)
        + "</details>"
        for form in e.forms[1:]
    ]
    return _section(title, "".join(out + more))


def _costs(e: Explanation) -> str:
    rows = [(mode, f"{cost.seconds:.2f}", cost.because) for mode, cost in e.estimates.items()]
    if e.paper_costs is not None:
        rows.append(("thesis, section 4.3.2", "", str(e.paper_costs)))
    return _section("Costs", _table(("way", "seconds", "made of"), rows, ("seconds",)))


def _reads(e: Explanation) -> str:
    rows = [
        (
            r.stored.name,
            versions(r.stored).removeprefix("version "),
            f"{r.stored.rows:,}",
            f"{r.stored.changed_rows:,}",
            size(r.stored.bytes),
            ", ".join(r.states) or "nothing",
            ", ".join(r.columns),
        )
        for r in e.reads
    ]
    headings = ("source", "version", "rows", "changed rows", "size", "the next refresh reads", "columns")
    return _section("Sources", _table(headings, rows, ("rows", "changed rows", "size")))


def _state(e: Explanation) -> str:
    rows = [
        (
            s.name,
            s.method,
            ", ".join(s.keys) or "none",
            ", ".join(f"{n} {t}" for n, t in zip(s.state, s.types, strict=True)),
            f"{s.stored.rows:,}",
            f"{size(s.stored.bytes)} in {plural(s.stored.files, 'file')}",
        )
        for s in e.stages
    ]
    return _section("State", _table(("stage", "kept by", "key", "columns", "rows", "size"), rows, ("rows",)))


def _laws(e: Explanation) -> str:
    rows = [(n.label, n.rule.replace("_", " "), n.law, n.source) for n in reversed(e.nodes) if n.law and not n.table]
    return _section("Laws", _table(("operator", "rule", "law", "from"), rows))
