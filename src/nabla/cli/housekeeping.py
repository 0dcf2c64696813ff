"""`nabla optimize`, `vacuum`, `housekeeping`: fewer and larger files, shorter logs, and the settings of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

import typer

from nabla.cli import show
from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, working


@reporting
def optimize(
    names: Annotated[
        list[str] | None, typer.Argument(help="Tables and views. Default: all.", show_default=False)
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Merge small files, write files with many deleted rows anew, and trim logs. No row changes, and no view becomes stale."""
    with working("Keeping house", as_json):
        done = locate(lake).open().optimize(*(names or ()))
    if as_json:
        print_json(done.to_dict())
    else:
        out().print(str(done), markup=False, highlight=False)


@reporting
def vacuum(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, help="Keep what was needed in the last so many hours.")
    ] = 168,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Delete files that no version needs any more. Files that views still refer to are kept."""
    with working("Looking for files that nothing needs", as_json):
        done = locate(lake).open().vacuum(dry_run=dry_run, older_than=timedelta(hours=older_than))
    if as_json:
        print_json(done)
    else:
        show.vacuumed(done, dry_run)


@reporting
def housekeeping(
    automatic: Annotated[
        Literal["on", "off"] | None,
        typer.Option(help="Whether refreshes and transactions do a little of it by themselves.", show_default=False),
    ] = None,
    history: Annotated[
        str | None, typer.Option(help='Days for which old versions can be named, or "forever".', show_default=False)
    ] = None,
    feeds: Annotated[
        str | None, typer.Option(help='Days for which changes of views are kept, or "forever".', show_default=False)
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the settings of housekeeping, after those that are given were changed."""
    wanted = None if automatic is None else automatic == "on"
    settings = locate(lake).open().housekeeping(wanted, _days("--history", history), _days("--feeds", feeds))
    if as_json:
        print_json(settings.to_dict())
    else:
        for name, value in settings.to_dict().items():
            out().print(f"{name}: {value}", markup=False, highlight=False)


def _days(option: str, text: str | None) -> timedelta | Literal["forever"] | None:
    if text is None:
        return None
    if text == "forever":
        return "forever"
    try:
        return timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f'{option} is a number of days, or "forever"') from None
