"""`nabla page`: the console as files, for a build server or an archive. Opened from a folder it needs no server."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from pathlib import Path

from nabla.console.pages import Allowed, Pages
from nabla.errors import NablaError
from nabla.lake.context import HasContext

MARK = Path("assets") / "console.css"
"""The file by which a folder is known to hold pages of a console."""


def write_pages(lake: HasContext, folder: Path) -> list[Path]:
    """Write the pages of a lake to a folder that is new, empty, or has such pages. Gives the files, the lake's page first."""
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARK).exists())):
        raise NablaError(
            "NABLA_FOLDER_EXISTS",
            "there is something else than pages of a console",
            place=str(folder),
            remedy="Choose another folder.",
        )
    pages = Pages(lake.context, Allowed(live=False), static=True)
    overview = pages.overviews.now()
    written = {"index.html": pages.lake(), "refreshes.html": pages.refreshes(), "advice.html": pages.advice()}
    for name in overview.objects:
        if (page := pages.object(name)) is not None:
            written[f"object/{name}.html"] = page
    (folder / "object").mkdir(parents=True, exist_ok=True)
    for old in (folder / "object").glob("*.html"):
        if f"object/{old.name}" not in written:
            old.unlink()  # of an object that the lake had when the pages were written last
    for name, content in written.items():
        (folder / name).write_text(content, encoding="utf-8")
    with as_file(files("nabla.console") / "assets") as assets:
        shutil.copytree(assets, folder / "assets", dirs_exist_ok=True)
    return [folder / name for name in written]
