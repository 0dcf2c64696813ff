"""`nabla alter table`, `nabla alter view`, `nabla publish`: columns and definitions that change, and names in catalogs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, working
from nabla.errors import NablaError
from nabla.lake.publish.publications import Publication
from nabla.lake.reports import AlterReport

app = typer.Typer(name="alter", help="Change the columns of a table, or the query of a view.", no_args_is_help=True)


@app.command("table")
@reporting
def alter_table(
    name: Annotated[str, typer.Argument(help="The table.")],
    add: Annotated[str | None, typer.Option(help='New columns, as "note STRING, discount DOUBLE".')] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to drop. May be repeated.")] = None,
    rename: Annotated[list[str] | None, typer.Option(help="OLD=NEW. May be repeated.")] = None,
    widen: Annotated[list[str] | None, typer.Option(help="COLUMN=TYPE. May be repeated.")] = None,
    default: Annotated[list[str] | None, typer.Option(help="COLUMN=VALUE for all rows. May be repeated.")] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Add, drop, rename or widen columns in one commit. Views that read the table go on."""
    renamed, widened, values = _pairs("--rename", rename), _pairs("--widen", widen), _pairs("--default", default)
    with working("Altering", as_json):
        done = locate(lake).open().alter_table(name, add, drop or None, renamed, widened, values)
    _show(done, as_json)


@app.command("view")
@reporting
def alter_view(
    name: Annotated[str, typer.Argument(help="The view.")],
    query: Annotated[str, typer.Argument(help="Its new query.")],
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Give a view another query. Its feed goes on, and tells the difference."""
    with working("Altering", as_json):
        done = locate(lake).open().alter_view(name, query)
    _show(done, as_json)


@reporting
def publish(
    name: Annotated[str, typer.Argument(help="The table or view.")],
    table: Annotated[str, typer.Argument(help='A name of the catalog, as "reports.revenue".')],
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show a table or view as a table of the session's catalog, which follows every commit."""
    with working("Publishing", as_json):
        done = locate(lake).open().publish(name, table)
    _show_publications([done], as_json, "published")


@reporting
def unpublish(
    name: Annotated[str, typer.Argument(help="The table or view.")],
    table: Annotated[str | None, typer.Argument(help="One of its names. Default: all.", show_default=False)] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Take the names of a table or view out of the catalog. The object itself stays."""
    with working("Withdrawing", as_json):
        ended = locate(lake).open().unpublish(name, table)
    _show_publications(ended, as_json, "no longer published")


def _show_publications(publications: Sequence[Publication], as_json: bool, what: str) -> None:
    if as_json:
        print_json([asdict(one) for one in publications])
        return
    for one in publications:
        out().print(f"{one.name} is {what} as {one.table}", markup=False, highlight=False)


def _show(done: AlterReport, as_json: bool) -> None:
    if as_json:
        print_json(done.to_dict())
    else:
        out().print(str(done), markup=False, highlight=False)


def _pairs(option: str, texts: Sequence[str] | None) -> Mapping[str, str] | None:
    pairs = [text.partition("=") for text in texts or ()]
    if wrong := next((name for name, sign, value in pairs if not (name and sign and value)), None):
        raise NablaError("NABLA_ARGUMENT", f"{wrong!r} has no value", place=option, remedy="Write NAME=VALUE.")
    return {name.strip(): value.strip() for name, _, value in pairs} or None
