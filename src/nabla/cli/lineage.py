"""`nabla lineage`: what a view's columns are computed from, and what depends on a column."""

from __future__ import annotations

from typing import Annotated

import typer

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, working


@reporting
def lineage(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A view or table, or one column: revenue.total.")],
    impact: Annotated[
        bool, typer.Option("--impact", help="The other way round: the columns of views that depend on it.")
    ] = False,
    direct: Annotated[
        bool, typer.Option("--direct", help="Stop at the views that it reads; by default they are seen through.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show which columns of which tables a view is computed from, directly or as a condition. Runs nothing."""
    if impact and direct:
        raise typer.BadParameter("--direct is about what a view reads, --impact about what reads it")
    with working("Reading the lake", as_json):
        opened = locate(lake).open()
        found = opened.impact(name) if impact else opened.lineage(name, through=not direct)
    if as_json:
        print_json(found.to_dict())
    else:
        out().print(str(found), markup=False, highlight=False, soft_wrap=True)
