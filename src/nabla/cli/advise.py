"""`nabla advise`: views that would pay for the queries that a lake was asked, or for those of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, working
from nabla.errors import NablaError


@reporting
def advise(
    queries: Annotated[
        Path | None, typer.Option("--queries", help="A file of queries, separated by semicolons.", show_default=False)
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", help='The most that the views may take, as "2 GB".', show_default="a fifth")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the proposed views.")] = False,
    drop_unused: Annotated[
        bool, typer.Option("--drop-unused", help="Drop views that were created on advice and answer no query.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Propose views that would answer the lake's queries faster than its tables do."""
    workload = None if queries is None else _read(queries)
    with working("Comparing views", as_json) as tell:
        opened = locate(lake).open()
        advice = opened.advise(workload, space=space)
        created, dropped = [], []
        for proposal in advice if create else ():
            tell(f"Building {proposal.name}")
            opened.create_advised(proposal)
            created.append(proposal.name)
        for view in advice.unused if drop_unused else ():
            if view.advised:
                opened.drop_view(view.name)
                dropped.append(view.name)
    if as_json:
        print_json(advice.to_dict() | {"created": created, "dropped": dropped})
        return
    out().print(escape(str(advice)), soft_wrap=True, highlight=False)
    for name in created:
        out().print(f"[green]created[/] {escape(name)}")
    for name in dropped:
        out().print(f"[yellow]dropped[/] {escape(name)}")


def _read(path: Path) -> list[str]:
    """The queries of a file."""
    import sqlglot

    try:
        text = path.read_text(encoding="utf-8")
        return [tree.sql(dialect="spark") for tree in sqlglot.parse(text, read="spark") if tree is not None]
    except OSError as error:
        raise NablaError(
            "NABLA_READ_FAILED", str(error.strerror), place=str(path), remedy="Name another file."
        ) from None
    except (sqlglot.errors.SqlglotError, UnicodeDecodeError) as error:
        what = str(error).splitlines()[0]
        raise NablaError("NABLA_SQL_SYNTAX", what, place=str(path), remedy="Separate queries by semicolons.") from None
