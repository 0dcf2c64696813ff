"""Data cannot give commands to the terminal that shows it."""

from __future__ import annotations

import json

import pytest

from nabla.cli import output, show
from nabla.errors import NablaError

EVIL = "a\x1b]0;title\x07\x1b[2J\x9b31m\r\u202eb"


def test_rows_show_control_characters_instead_of_sending_them(capsys: pytest.CaptureFixture[str]) -> None:
    show.rows([EVIL], [(EVIL,), (None,)], more=True)
    printed = capsys.readouterr().out
    assert not set("\x1b\x07\x9b\r\u202e") & set(printed)
    assert r"\x1b[2J" in printed


def test_errors_and_json_do_so_too(capsys: pytest.CaptureFixture[str]) -> None:
    for as_json in (False, True):
        output.show_error(NablaError("NABLA_X", EVIL, place=EVIL, remedy=EVIL), as_json)
    output.print_json({EVIL: [EVIL]})
    printed = capsys.readouterr()
    assert not set("\x1b\x07\x9b\r\u202e") & set(printed.out + printed.err)
    assert json.loads(printed.out) == {EVIL: [EVIL]}


def test_colours_of_our_own_still_come_through() -> None:
    console = output.SafeConsole(force_terminal=True, color_system="standard", width=80)
    with console.capture() as printed:
        console.print("[red]held[/]", "\x1b[32mno\x1b[0m")
    assert "\x1b[31mheld" in printed.get()
    assert "\x1b[32m" not in printed.get()
