"""Calls that are wrong in themselves: their arguments, and the process that makes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nabla
from nabla._arguments import accepts, describe
from nabla.errors import NablaError
from nabla.storage.lakelog import LakeLog


def test_hints_say_which_values_are_taken() -> None:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal

    taken: list[tuple[Any, object]] = [
        (str, "a"), (int, 5), (bool, True), (str | None, None), (Sequence[str], ["a"]), (Sequence[str], ("a", "b")),
        (Mapping[str, str], {"a": "b"}), (Callable[[], int], len), (Literal["auto"], "other"), (os.PathLike[str], Path()),
    ]  # fmt: skip
    refused: list[tuple[Any, object]] = [
        (str, None), (int, True), (int, 1.0), (bool, 1), (str | None, 5), (Sequence[str], "ab"), (Sequence[str], [5]),
        (Mapping[str, str], {"a": 5}), (Callable[[], int], 5), (Literal["auto"], 5), (os.PathLike[str], 5),
    ]  # fmt: skip
    assert [case for case in taken if not accepts(*case)] == []
    assert [case for case in refused if accepts(*case)] == []
    assert describe(str | Sequence[str] | None) == "text or a list of text or None"


@pytest.mark.parametrize("path", [None, 5, "", "\0", "foo://x", b"lake"])
def test_a_lake_is_opened_in_a_folder_only(path: object) -> None:
    with pytest.raises(NablaError, match=r"NABLA_(ARGUMENT|PATH)"):
        nabla.open(path)  # type: ignore[arg-type]


def test_the_path_of_a_lake_is_escaped_in_notebooks(tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "<img src=x>")
    assert "<img" not in lake._repr_html_()
    assert "&lt;img" in lake._repr_html_()


def test_a_lake_does_not_register_its_own_folders(tmp_path: Path) -> None:
    lake = nabla.open(tmp_path / "lake")
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "_nabla")
    for path in (tmp_path / "lake", tmp_path / "lake/_nabla/log", tmp_path / "link/log", tmp_path / "x/../lake/tables"):
        with pytest.raises(NablaError, match="NABLA_PATH"):
            lake.register("own", path)


def test_a_forked_child_is_told_so(tmp_path: Path) -> None:
    log = LakeLog.create(tmp_path / "lake")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # no test goes on in here, whatever happens
        try:
            codes = []
            for use in (log.state, lambda: LakeLog.open(tmp_path / "lake")):
                try:
                    use()
                except NablaError as error:
                    codes.append(error.code)
            os.write(write, " ".join(codes).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"NABLA_FORKED NABLA_FORKED"
    assert log.state().version == 0  # the parent goes on
