"""A lake writes to its own folder and deletes from it, whatever its catalog, its tables' logs or links in it say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lake_story
import pytest
from deltalake import Schema
from lake_story import ROWS, rows
from typer.testing import CliRunner

from nabla.cli.main import app
from nabla.dev.testing.hostile_lake import files_in, forge
from nabla.errors import NablaError
from nabla.storage import files, reading
from nabla.storage.catalog import Entry, Part, Pending
from nabla.storage.changes import between
from nabla.storage.lakelog import LakeLog
from nabla.storage.table import StoredTable
from nabla.storage.vacuum import vacuum


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A lake with a table "orders" and a view of it."""
    log = LakeLog.create(tmp_path / "lake")
    for number in range(3):
        lake_story.step(log, number)
    return tmp_path / "lake"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A Delta table that is no part of the lake, with a file that its log does not name."""
    folder = tmp_path / "victim"
    StoredTable.create(folder, Schema.from_arrow(ROWS).to_json(), files.write(folder, rows(7)))
    files.write(folder, rows(8))
    return folder


def orders(lake: Path) -> Path:
    return lake / LakeLog.open(lake).state().entries["orders"].parts["data"].path


def moved_to(path: str, pending: Pending | None = None, version: int = 0) -> Callable[[Entry], Entry]:
    return lambda entry: replace(entry, parts={"data": Part(path, version, pending)})


def refuse_to_open(lake: Path | str) -> None:
    with pytest.raises(NablaError) as refused:
        LakeLog.open(lake)
    assert refused.value.code == "NABLA_OUTSIDE"


@pytest.mark.parametrize("form", ["{victim}", "tables/../../victim", "file://{victim}", "../victim", "tables/.."])
def test_a_promise_on_a_foreign_table_is_not_kept(lake: Path, victim: Path, form: str) -> None:
    promise = Pending(files.write(victim, rows(666)), (), {}, "forged")
    before = files_in(victim)
    forge(lake, moved_to(form.format(victim=victim), promise, 1))
    refuse_to_open(lake)
    assert files_in(victim) == before


def test_a_registered_table_gets_no_promise(lake: Path, victim: Path) -> None:
    promise = Pending(files.write(victim, rows(666)), (), {}, "forged")
    forge(lake, lambda e: replace(e, kind="registered", parts={"data": Part(str(victim), 1, promise)}))
    refuse_to_open(lake)


def test_a_promise_does_not_name_files_elsewhere(lake: Path, victim: Path) -> None:
    (file, *_) = files.write(victim, rows(666))
    promise = Pending((replace(file, path=f"../../../victim/{file.path}"),), (), {}, "forged")
    forge(lake, lambda e: replace(e, parts={"data": replace(e.parts["data"], pending=promise)}))
    refuse_to_open(lake)


def test_a_vacuum_does_not_follow_the_catalog_out_of_the_lake(lake: Path, victim: Path) -> None:
    before = files_in(victim)
    forge(lake, moved_to("tables/../../victim"))
    shown = CliRunner().invoke(app, ["vacuum", "--older-than", "0", "--lake", str(lake)])
    assert shown.exit_code == 1
    assert "NABLA_OUTSIDE" in shown.stderr
    assert files_in(victim) == before


@pytest.mark.parametrize("inside", ["", "_delta_log", "_changes", "_keys"])
def test_a_folder_of_a_table_that_is_a_link_is_not_followed(lake: Path, victim: Path, inside: str) -> None:
    held = LakeLog.open(lake)
    held.table(held.state().entries["orders"].parts["data"]).snapshot()
    place = orders(lake) / inside if inside else orders(lake)
    if place.exists():
        place.rename(lake.parent / "aside")
    (victim / inside).mkdir(exist_ok=True)
    place.symlink_to(victim / inside)
    before = files_in(victim)
    with pytest.raises(NablaError) as refused:
        vacuum(held, {}, grace=0)
    assert refused.value.code == "NABLA_OUTSIDE"
    refuse_to_open(lake)  # the newest commit has promises, which are kept in this folder
    assert files_in(victim) == before


def test_a_promise_is_not_kept_through_a_link(lake: Path, victim: Path) -> None:
    promise = Pending(files.write(victim, rows(666)), (), {}, "forged")
    before = files_in(victim)
    (lake / "tables" / "orders-00000000").symlink_to(victim)
    forge(lake, moved_to("tables/orders-00000000", promise, 1))
    refuse_to_open(lake)
    assert files_in(victim) == before


@pytest.mark.parametrize("form", ["{lake}", "file://{lake}"])
@pytest.mark.parametrize("folder", ["tables", "_nabla", "_nabla/log", "_nabla/staging", "_nabla/log/_delta_log"])
def test_folders_of_the_lake_itself_are_no_links(lake: Path, folder: str, form: str) -> None:
    (lake / folder).rename(lake.parent / "elsewhere")
    (lake / folder).symlink_to(lake.parent / "elsewhere")
    refuse_to_open(form.format(lake=lake))


def test_a_folder_of_the_lake_may_be_a_link_into_the_lake(lake: Path) -> None:
    (lake / "_nabla" / "staging").rename(lake / "_nabla" / "aside")
    (lake / "_nabla" / "staging").symlink_to(lake / "_nabla" / "aside")
    lake_story.check(LakeLog.open(lake))


def test_no_lake_is_made_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "_nabla").symlink_to(tmp_path / "victim")
    with pytest.raises(NablaError, match="NABLA_OUTSIDE"):
        LakeLog.create(tmp_path / "lake")
    assert not os.listdir(tmp_path / "victim")


def test_a_lake_behind_a_link_is_a_lake(lake: Path) -> None:
    (lake.parent / "link").symlink_to(lake)
    log = LakeLog.open(lake.parent / "link")
    lake_story.step(log, 3)
    assert log.state().version == 4


def test_a_table_of_the_lake_has_its_files_in_its_folder(lake: Path, victim: Path) -> None:
    """A refresh would read the user's files and write their rows into the lake of somebody else."""
    (file,) = StoredTable(victim).snapshot().files
    part = LakeLog.open(lake).state().entries["orders"].parts["data"]
    for path in (f"../../../victim/{file.path}", f"file://{victim}/{file.path}"):
        _name_in_log(orders(lake), part.version, path)
        with pytest.raises(NablaError, match="NABLA_OUTSIDE"):
            LakeLog.open(lake).snapshot(part)


def test_a_file_of_a_table_is_no_link(lake: Path, victim: Path) -> None:
    log = LakeLog.open(lake)
    part = log.state().entries["orders"].parts["data"]
    (secret,) = StoredTable(victim).snapshot().paths
    shown = Path(log.snapshot(part).paths[0])
    shown.unlink()
    shown.symlink_to(secret)
    with pytest.raises(NablaError, match="NABLA_OUTSIDE"):
        LakeLog.open(lake).snapshot(part)


def test_a_recorded_change_is_in_its_table(lake: Path, victim: Path) -> None:
    log = LakeLog.open(lake)
    part = log.state().entries["orders"].parts["data"]
    commit = orders(lake) / "_delta_log" / f"{part.version:020d}.json"
    (secret,) = StoredTable(victim).snapshot().paths
    text = commit.read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    info["nabla"]["change"][0]["path"] = secret
    commit.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(NablaError, match="NABLA_OUTSIDE"):
        between(LakeLog.open(lake).table(part), part.version - 1, part.version)


def test_files_of_a_registered_table_may_be_anywhere(lake: Path, victim: Path, tmp_path: Path) -> None:
    """A shallow clone names the files of another table; it is read, and never written."""
    (file,) = StoredTable(victim).snapshot().files
    clone = tmp_path / "clone"
    StoredTable.create(clone, Schema.from_arrow(ROWS).to_json(), [replace(file, path=f"file://{victim}/{file.path}")])
    log = LakeLog.open(lake)
    entry = Entry("clone", "registered", {}, {"data": Part(str(clone), 0)})
    log.commit({"clone": entry}, log.state(), "register")
    assert reading.read(LakeLog.open(lake).snapshot(entry.parts["data"])) == rows(7)


@pytest.mark.parametrize("name", ["a\n", "\x1b[2J", "../orders"])
def test_a_name_that_nabla_would_not_give_is_refused(lake: Path, name: str) -> None:
    """Names are printed to terminals and pages, and written into queries."""
    forge(lake, lambda entry: replace(entry, name=name))
    with pytest.raises(NablaError, match="NABLA_CORRUPT") as refused:
        LakeLog.open(lake)
    assert refused.value.message.isprintable()


def _name_in_log(table: Path, version: int, path: str) -> None:
    commit = table / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["path"] = path
    commit.write_text("\n".join(map(json.dumps, actions)))
