"""`nabla check`, `log`, `revert`, `fsck`: do the constraints hold, what happened, how to undo it, is the lake damaged."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, table, working


@reporting
def check(
    names: Annotated[list[str] | None, typer.Argument(help="Constraints. Default: all.", show_default=False)] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Evaluate constraints from scratch; fails with the rows that violate one."""
    with working("Checking", as_json):
        found = locate(lake).open().check(*(names or ()))
    if as_json:
        print_json(found.to_dict())
    else:
        rows = [(c.name, c.on_violation, c.violations) for c in found.values()]
        out().print(table(("constraint", "on violation", "violations"), rows, numbers=("violations",)))
        for checked in found.violated:
            out().print(f"[red]violated[/]  {escape(str(checked.found))}", soft_wrap=True)
    if found.violated:
        raise typer.Exit(1)


@reporting
def log(
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show at most this many commits.")] = 50,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the lake's commits, newest first: its versions, and what each of them changed."""
    with working("Reading the log", as_json):
        events = locate(lake).open().history(limit=limit)
    if as_json:
        print_json(
            [{"version": e.version, "time": e.timestamp, "operation": e.operation, "changed": e.reason} for e in events]
        )
    else:
        shown = [(e.version, f"{e.timestamp:%Y-%m-%d %H:%M:%S}", e.operation, e.reason) for e in events]
        out().print(table(("version", "time", "operation", "changed"), shown, numbers=("version",)))


@reporting
def revert(
    version: Annotated[int, typer.Argument(min=0, help="The version of the lake, as `nabla log` shows it.")],
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Give tables and views the content back that they had at a version of the lake. This can be reverted, too."""
    with working("Reverting", as_json):
        found = locate(lake).open().revert(version)
    if as_json:
        print_json(found.to_dict())
    else:
        rows = [(r.name, r.version, r.inserted, r.deleted) for r in found.values()]
        out().print(table(("name", "version", "inserted", "deleted"), rows, numbers=("version", "inserted", "deleted")))


@reporting
def fsck(
    repair: Annotated[bool, typer.Option("--repair", help="Mend what the lake itself knows how to.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Look at logs, sizes and footers; read no rows.")] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Look for damage in the lake's logs and files; fails if there is any that was not repaired."""
    from nabla.storage.fsck import examine_lake

    with working("Looking through the lake", as_json):
        found = examine_lake(str(locate(lake).lake), repair=repair, quick=quick)
    if as_json:
        print_json(found)
    else:
        out().print(escape(str(found)), soft_wrap=True)
    if not found.sound:
        raise typer.Exit(1)
