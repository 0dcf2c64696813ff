"""`nabla trust`: decides which lakes may run their code."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from nabla.cli.options import DebugOption, JsonOption
from nabla.cli.output import out, print_json, reporting


@reporting
def trust(
    folder: Annotated[
        str | None, typer.Argument(help="The lake's folder or URL. Default: list those you trust.", show_default=False)
    ] = None,
    forget: Annotated[bool, typer.Option("--forget", help="Trust it no longer.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Let a lake that somebody else made run the Python functions and other code of its views as you."""
    from nabla.lake import trust as trusted
    from nabla.storage import locations
    from nabla.storage.lakelog import LakeLog

    if folder is None and forget:
        raise typer.BadParameter("give the lake to forget")
    if folder is not None:
        place = folder if locations.is_url(folder) else str(Path(folder).expanduser())
        if forget:
            done = "forgotten" if trusted.forget(place) else "was not trusted"
        else:
            trusted.remember(LakeLog.open(place))
            done = "trusted"
        print_json({"lake": place, "done": done}) if as_json else out().print(f"[green]{done}[/]  {escape(place)}")
        return
    lakes = trusted.remembered()
    print_json({"trusted": lakes}) if as_json else out().print("\n".join(lakes), markup=False, highlight=False)
