"""A process killed anywhere leaves a lake that the next one completes: exactly, and nothing twice."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import forks
import lake_story
import pytest

import nabla.storage
from nabla.storage import machine
from nabla.storage.lakelog import LakeLog

SOURCES = Path(nabla.storage.__file__).parent.glob("*.py")
POINTS = sorted({name for source in SOURCES for name in re.findall(r'machine\.point\("(.+?)"\)', source.read_text())})
VISITS = (1, 2, 3, 4, 7)  # of a point: enough to die in each step of the story
ELSEWHERE = {"files.adopt", "compact.written", "trim.delete"}
"""Spark's files are not part of the story, and housekeeping has its own test of kills."""


def tell(path: str, fault: str) -> None:
    machine.arm(fault)
    lake_story.run(path)


def killed(path: Path, fault: str) -> bool:
    """Whether a process that tells the story of a lake dies at a fault."""
    process = forks.start(tell, str(path), fault)
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.parametrize("point", [point for point in POINTS if point not in ELSEWHERE])
def test_a_killed_process_leaves_a_lake_that_completes_itself(tmp_path: Path, point: str) -> None:
    deaths = 0
    for visit in VISITS:
        path = tmp_path / f"lake{visit}"
        if not killed(path, f"{point}:{visit}"):
            break
        deaths += 1
        if LakeLog.exists(path):
            lake_story.check(LakeLog.open(path))
        lake_story.run(path)
        lake = LakeLog.open(path)
        lake_story.check(lake)
        assert lake_story.steps_done(lake) == lake_story.STEPS
    assert deaths > 0, "the story passes every point"


def test_killed_again_and_again_it_still_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    for point in ("lake.create", "files.written", "lake.commit", "lake.committed", "roll.part", "roll.part"):
        assert killed(path, point)
    lake_story.run(path)
    lake_story.check(LakeLog.open(path))
