"""`nabla promote` and `nabla env`: environments become current, are listed and dropped."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, table, working

env_app = typer.Typer(
    name="env", help="Environments: views of a changed project beside those of the lake.", no_args_is_help=True
)
NameArgument = Annotated[str, typer.Argument(help="The environment.")]


@reporting
def promote(
    name: NameArgument,
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make the views of an environment those of the lake, in one commit. Nothing is computed again."""
    from nabla.lake.environments.promote import promote as promote_environment

    place = locate(lake)
    with working("Opening", as_json) as tell:
        opened = place.open()
        tell("Promoting")
        done = promote_environment(opened.context, name, lambda: _refresh(place.open(environment=name)))
    if as_json:
        print_json(done)
        return
    for what, names in (("new", done.new), ("replaced", done.replaced), ("dropped", done.dropped)):
        if names:
            out().print(f"{what}  {escape(', '.join(names))}", soft_wrap=True)
    out().print(f"[green]promoted[/]  {escape(name)} is version {done.version} of the lake")


def _refresh(inside: object) -> None:
    from nabla.lake.facade import Lake

    assert isinstance(inside, Lake)
    own = [name for name, status in inside.status().items() if status.kind == "view"]
    if own:
        inside.refresh(*own)


@env_app.command("list")
@reporting
def list_environments(lake: LakeOption = None, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the environments of the lake: what each has itself, and what changed in the lake since."""
    from nabla.lake.environments.environments import environments

    found = environments(locate(lake).open().context.log)
    if as_json:
        print_json(found)
    elif not found:
        out().print("no environments")
    else:
        rows = [
            (one.name, ", ".join(one.objects), one.complete, ", ".join(one.stale), one.made.astimezone())
            for one in found
        ]
        out().print(table(("environment", "has itself", "complete", "changed in the lake since", "made"), rows))


@env_app.command("drop")
@reporting
def drop_environment(
    name: NameArgument, lake: LakeOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Drop an environment. Its files go with the next vacuum."""
    from nabla.lake.environments.environments import drop

    drop(locate(lake).open().context.log, name)
    if as_json:
        print_json({"dropped": name})
    else:
        out().print(f"dropped  {escape(name)}")
