"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Mode = Literal["auto", "incremental", "strict", "full"]
Form = Literal["pairs", "count", "change table", "qian-wiederhold", "signed"]

LakeOption = Annotated[
    Path | None,
    typer.Option(
        "--lake",
        help="The lake's folder, or a project's. Default: the lake or project that the current folder is in.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for programs.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show Python's traceback when something goes wrong.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Show at most this many rows.")]
EnvOption = Annotated[
    str | None,
    typer.Option("--env", help="See the lake through this environment.", show_default=False),
]
NamesArgument = Annotated[list[str] | None, typer.Argument(help="Views. Default: all.", show_default=False)]
ModeOption = Annotated[
    Mode | None,
    typer.Option(
        "--mode",
        help="auto: the cheaper of incremental and full. incremental: from the change wherever there is a rule. "
        "strict: fail where there is none. full: recompute.",
        show_default=False,
    ),
]
FormOption = Annotated[
    Form | None,
    typer.Option(
        "--form",
        help="The view's change as one of the papers derives it, with its size and what it would read.",
        show_default=False,
    ),
]
