"""Results of commands, printed in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import filesize
from rich.markup import escape
from rich.text import Text

from nabla.cli.output import cell, mode_cell, out, print_json, table
from nabla.errors import NablaError

if TYPE_CHECKING:
    from nabla.cli.projects import Run
    from nabla.explain.explanation import Explanation
    from nabla.lake.reports import LakeStatus, Status, ViewReport
    from nabla.storage.vacuum import Vacuumed

# A line of the table that refreshing commands print: view, mode, reason, inserted, deleted, seconds.
Line = tuple[str, str, str, int | None, int | None, float]


def run(result: Run) -> None:
    console = out()
    for name in result.tables:
        console.print(f"table [bold]{name}[/] loaded")
    rows: list[Line] = [
        (built.name, built.mode, built.reason, built.inserted, built.deleted, built.seconds) for built in result.built
    ]
    fresh = {built.name for built in result.built}
    rows += [report_row(report) for name, report in result.refreshed.items() if name not in fresh]
    _views(rows)
    for built in result.built:
        for one in built.expectations:
            style = "dim" if one.failed == 0 else "yellow"
            said = {"warn": "do not meet", "drop": "were dropped by", "fail": "do not meet"}[one.action]
            console.print(
                f"[{style}]{escape(built.name)}  {one.failed:,} rows {said} {escape(one.name)}[/]", soft_wrap=True
            )
    for name in result.strangers:
        console.print(f"[yellow]note[/]  the lake has a view {name} that the project does not define; it was refreshed")


def reports(found: Mapping[str, ViewReport]) -> None:
    from nabla.calculus.recursion.fixpoint import summary

    _views([report_row(report) for report in found.values()])
    for report in found.values():
        if report.rounds:
            out().print(f"[dim]{escape(report.name)}  {escape(summary(report.rounds))}[/]", soft_wrap=True)


def report_row(report: ViewReport) -> Line:
    return report.name, report.mode, report.reason, report.inserted, report.deleted, report.seconds


def _views(rows: Sequence[Line]) -> None:
    if not rows:
        out().print("no views")
        return
    headers = ("view", "mode", "inserted", "deleted", "seconds", "reason")
    grid = table(headers, [], numbers=("inserted", "deleted", "seconds"), tail="reason")
    for name, mode, reason, inserted, deleted, seconds in rows:
        grid.add_row(cell(name), mode_cell(mode), cell(inserted), cell(deleted), cell(seconds), cell(reason))
    out().print(grid)


def status(found: Mapping[str, Status]) -> None:
    headers = ("name", "kind", "version", "rows", "stale", "when", "sources")
    rows = [
        (s.name, s.kind, s.version, s.rows, s.stale if s.kind == "view" else "", s.when, _versions(s.sources))
        for s in found.values()
    ]
    if rows:
        out().print(table(headers, rows, numbers=("version", "rows")))
    else:
        out().print("an empty lake")
    for one in found.values():
        if one.problem:
            out().print(f"[red]{escape(one.name)}[/]  {escape(one.problem)}", soft_wrap=True)


def _versions(sources: Mapping[str, int]) -> str:
    from nabla.lake.reports import at_version

    return ", ".join(f"{name}{at_version(version)}" for name, version in sources.items())


def check_names(names: Sequence[str], known: LakeStatus) -> None:
    for name in names:
        if name not in known:
            raise NablaError(
                "NABLA_UNKNOWN_TABLE",
                f'there is no table or view "{name}"',
                remedy=f"The lake has {', '.join(known) or 'none yet'}.",
            )


def explanation(found: Explanation, algebra: bool, sql: bool) -> None:
    texts = [found.algebra()] * algebra + [found.sql()] * sql or [str(found)]
    out().print("\n\n".join(texts), markup=False, soft_wrap=True)


def page(found: Explanation, file: Path | None, as_json: bool) -> None:
    """Writes the HTML page and says where it is."""
    file = file or Path(f"{found.view}.html")
    file.write_text(found.to_html(), encoding="utf-8")
    if as_json:
        print_json({"file": file})
    else:
        out().print(f"wrote {file}", markup=False, soft_wrap=True)


def rules(as_json: bool) -> None:
    """The registry of laws, as the calculus has it."""
    import nabla.calculus.rules  # noqa: F401  registers them
    from nabla.calculus.laws import LAWS

    if as_json:
        print_json([{"name": e.name, "law": e.law, "source": e.source, "sql": e.sql} for e in LAWS.values()])
    else:
        out().print(table(("rule", "law", "source"), [(e.name, e.law, e.source) for e in LAWS.values()]))


def rows(columns: Sequence[str], found: Sequence[Sequence[object]], more: bool) -> None:
    numeric = [c for i, c in enumerate(columns) if found and all(isinstance(r[i], int | float) for r in found)]
    out().print(table(columns, [tuple(row) for row in found], numbers=numeric))
    if more:
        out().print(Text(f"… the first {len(found)} rows; --limit shows more", style="dim"))


def vacuumed(done: Vacuumed, dry_run: bool) -> None:
    console = out()
    for path in done.paths if dry_run else ():
        console.print(path, markup=False)
    size = filesize.decimal(done.bytes)
    console.print(f"{len(done.paths)} files ({size}) {'would be' if dry_run else 'were'} deleted")
