"""`nabla ui` and `nabla page`: the lake in a browser, served or as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nabla.cli.locate import locate
from nabla.cli.options import DebugOption, JsonOption, LakeOption
from nabla.cli.output import out, print_json, reporting, working
from nabla.errors import NablaError

if TYPE_CHECKING:
    from nabla.lake.facade import Lake


@reporting
def ui(
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="FOLDER|URL",
            help="The lake's folder or URL, or a project's folder. Default: the one that the current folder is in.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0 takes any free one.")] = 4040,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen at. Beyond this machine, the address has a token.")
    ] = "127.0.0.1",
    allow_refresh: Annotated[
        bool, typer.Option("--allow-refresh", help="Let pages refresh and verify views. Without it they only read.")
    ] = False,
    allow_query: Annotated[
        bool, typer.Option("--allow-query", help="Let pages run queries over the lake's tables and views, on Spark.")
    ] = False,
    debug: DebugOption = False,
) -> None:
    """Show the lake in a browser: its graph, every view with plan and history, refreshes as they run, advice."""
    with working("Reading the lake"):
        _check_installed()
        from nabla.console.pages import Allowed
        from nabla.console.server import ConsoleServer

        opened = _open(lake)
        server = ConsoleServer(opened, host, port, Allowed(refresh=allow_refresh, query=allow_query))
    console = out()
    console.print(f"[bold]{server.url}[/]", soft_wrap=True)
    console.print(f"[dim]the console of {opened.path}; Ctrl+C ends it[/]", soft_wrap=True)
    server.run()


@reporting
def page(
    folder: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder to write to: new, empty, or written by this command.")
    ],
    lake: LakeOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write the console as files, for a build server or an archive. Open index.html; it needs no server."""
    with working("Writing pages", as_json):
        _check_installed()
        from nabla.console.static_pages import write_pages

        files = write_pages(locate(lake).open(), folder)
    if as_json:
        print_json({"folder": folder, "files": files})
    else:
        out().print(f"[green]{len(files)} pages[/]  {files[0]}", soft_wrap=True)


def _open(lake: str | None) -> Lake:
    """The lake in a folder, in a project or at a URL."""
    if lake is None or "://" not in lake:
        return locate(None if lake is None else Path(lake)).open()
    import nabla
    from nabla.storage.lakelog import LakeLog

    if not LakeLog.exists(lake):
        raise NablaError("NABLA_NO_LAKE", "there is no lake", place=lake, remedy="Name another with --lake.")
    return nabla.open(lake)


def _check_installed() -> None:
    """Say how to get the packages of the console if they are not there."""
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise NablaError(
            "NABLA_NOT_INSTALLED",
            f"the console needs the package {error.name}",
            place="nabla ui",
            remedy="Install it with pip install 'nabla-spark[ui]'.",
        ) from None
