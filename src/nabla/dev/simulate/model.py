"""What a lake must look like, told from the diary of its actors and the order of its commits alone."""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import lru_cache

from nabla.dev.simulate.world import AT_ONCE, FIRST, LATER, TABLE, Diary, log_folder, read, read_feed
from nabla.storage.catalog import LakeState
from nabla.storage.lakelog import LakeLog


class Violation(AssertionError):
    """An invariant does not hold."""


COMPACTED = ""
"""Stands for a commit that has moved the table to a version with the same rows."""


def commits_of_table(path: str) -> list[str]:
    """The transactions and compactions in the lake's log that made versions of the table, in order. The log is read as plain
    text: nothing under test has a part in it."""
    folder = log_folder(path)
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json") and name[:20].isdigit():
            with open(os.path.join(folder, name), "rb") as lines:
                attempt = _attempt(lines.readline())
            if attempt is not None:
                found.append(attempt)
    return found


def committed_attempts(path: str) -> list[str]:
    """The transactions in the lake's log, in order."""
    return [name for name in commits_of_table(path) if name != COMPACTED]


@lru_cache(1024)
def _attempt(line: bytes) -> str | None:
    """The transaction that a commit's first line names, if it is one, and nothing for a compaction of the table."""
    said = json.loads(line)["commitInfo"]["nabla"]
    if TABLE in said["objects"] and said["operation"] == "optimize":
        return COMPACTED
    return said["objects"].get(TABLE, {}).get("attempt")


def contents(diary: Diary, committed: list[str]) -> list[Counter[int]]:
    """The rows of the table at each of its versions."""
    rows = [Counter(FIRST)]
    for name in committed:
        if name == COMPACTED:
            rows.append(rows[-1])
            continue
        attempt = diary.attempts[name]
        after = Counter(rows[-1])
        after.update(attempt.inserts)
        after.subtract(attempt.deletes)
        rows.append(+after)
    return rows


def check_state(log: LakeLog, state: LakeState, diary: Diary) -> None:
    """A state that somebody reads is whole: the view that follows at once has followed, every view is the table as it was at
    the version that the view names, and its feed adds up to it."""
    expected = contents(diary, commits_of_table(log.path))
    version = state.entries[TABLE].parts["data"].version
    _same("the table", read(log, state, TABLE), expected[version])
    for name in (AT_ONCE, LATER):
        reflected = state.entries[name].facts["sources"][TABLE]
        if name == AT_ONCE:
            _same("what the immediate view reflects", reflected, version)
        _same(f"view {name}", read(log, state, name), expected[reflected])
        _same(f"the feed of {name}", read_feed(log, state, name), expected[reflected])


def check_diary(path: str, diary: Diary) -> None:
    """Whatever was acknowledged is committed once, unless there was a warning, and whatever was refused is not."""
    committed = Counter(committed_attempts(path))
    _same("committed twice", {name: n for name, n in committed.items() if n > 1}, {})
    if not diary.unsure:
        _same("acknowledged and lost", [name for name in diary.acknowledged if name not in committed], [])
    wrong = {name: str(error) for name, error in diary.refused.items() if name in committed}
    _same("refused although committed", wrong, {})


def _same(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Violation(f"{what}: found {found}, expected {expected}")
