"""The output of commands: tables for people, JSON for programs, errors on the error stream."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO, TypeVar

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from nabla.errors import Mismatch, NablaError
from nabla.explain.tables import terminal_table

if TYPE_CHECKING:
    from nabla.lake.running import Running

P = ParamSpec("P")
R = TypeVar("R")
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
"""Characters that a terminal obeys instead of showing them, but for tabs and new lines; and those that turn the direction."""
MODE_STYLES = {"skip": "dim", "incremental": "green", "full": "yellow", "reload": "yellow", "held": "red"}


class SafeConsole(Console):
    """A console that shows control characters of what it prints instead of sending them to the terminal, which would take
    them for commands: data may come from anybody."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def visible(text: str) -> str:
    """The text with its control characters as Python writes them: `\\x1b`."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def out() -> Console:
    """Standard output. Lines are broken for a terminal only: a program that reads them wants them whole."""
    return SafeConsole(highlight=False, width=_width(sys.stdout))


def err() -> Console:
    return SafeConsole(stderr=True, highlight=False, width=_width(sys.stderr))


def _width(stream: TextIO) -> int | None:
    return None if stream.isatty() or "COLUMNS" in os.environ else 1000


@contextmanager
def working(what: str, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A spinner on the error stream while work goes on; the value is a function that changes its text."""
    console = err()
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    with console.status(f"{escape(what)} …") as status:
        _STATUS.append(lambda text: status.update(f"{escape(visible(text))} …"))
        try:
            yield _STATUS[-1]
        finally:
            _STATUS.pop()


_STATUS: list[Callable[[str], None]] = []
"""The function that changes the text of the spinner, if there is one."""


class SpinnerScreen:
    """Shows what runs beside the spinner of a command."""

    def show(self, running: Sequence[Running]) -> None:
        from nabla.lake.monitor.progress import sentence

        if _STATUS:
            _STATUS[-1](sentence(running))

    def clear(self) -> None:
        """The spinner goes by itself."""


def reporting(command: Callable[P, R]) -> Callable[P, R]:
    """Turns an error of a command into a message and exit code 1; with `--debug` the error is raised."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("debug"):
            return command(*args, **kwargs)
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except KeyboardInterrupt:
            err().print("[yellow]stopped[/]")
            raise typer.Exit(130) from None
        except NablaError as error:
            show_error(error, as_json=bool(kwargs.get("as_json")))
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            show_error(unexpected(error), as_json=bool(kwargs.get("as_json")))
        raise typer.Exit(1)

    return wrapper


def unexpected(error: Exception) -> NablaError:
    lines = str(error).strip().splitlines()[:2]  # py4j names the Java exception in the second line
    what = f"{type(error).__name__}: {' '.join(lines)}" if lines else type(error).__name__
    return NablaError("NABLA_UNEXPECTED", what, remedy="Run the command again with --debug to see where.")


def show_error(error: NablaError, as_json: bool) -> None:
    if as_json:
        fields: dict[str, Any] = {
            "code": error.code,
            "message": error.message,
            "place": error.place,
            "remedy": error.remedy,
        }
        if isinstance(error, Mismatch):
            fields["rows"] = jsonable(error.rows)
        if isinstance(violations := getattr(error, "violations", None), tuple):
            fields["violations"] = jsonable([violation.to_dict() for violation in violations])
        print(to_json({"error": fields}), file=sys.stderr)  # noqa: T201
        return
    console = err()
    console.print(f"[bold red]{escape(error.code)}[/]  {escape(error.message)}")
    if error.place:
        console.print(f"  [dim]where[/]   {escape(error.place)}")
    if error.remedy:
        console.print(f"  [dim]remedy[/]  {escape(error.remedy)}")
    if isinstance(error, Mismatch):
        for row in error.rows[:20]:
            console.print(f"  {escape(str(row))}")


def print_json(value: object) -> None:
    print(to_json(value, indent=2))  # noqa: T201


def to_json(value: object, indent: int | None = None) -> str:
    """JSON in which no control character stands as it is; JSON itself requires that of the first 32 only."""
    text = json.dumps(jsonable(value), ensure_ascii=False, indent=indent)
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def jsonable(value: Any) -> Any:
    """A value for JSON. Dataclasses become objects, by their `to_dict` if they have one. Decimals and times become texts, which
    are exact and readable by every JSON library."""
    if hasattr(value, "to_dict"):
        return jsonable(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if hasattr(value, "asDict"):  # a Row of Spark, which is a tuple too
        return jsonable(value.asDict())
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, decimal.Decimal | Path | datetime.timedelta):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def table(
    headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[str] = (), tail: str = ""
) -> Table:
    return terminal_table(headings, ([cell(value) for value in row] for row in rows), numbers, tail)


def cell(value: object) -> str:
    if value is None:
        return "[dim]–[/]"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ", timespec="seconds")
    return escape(visible(str(value)))


def mode_cell(mode: str) -> str:
    return f"[{MODE_STYLES.get(mode, 'cyan')}]{escape(mode)}[/]"
