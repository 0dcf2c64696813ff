"""Housekeeping that happens by itself: now and then a refresh or a transaction does a small piece of it, after its commit.

Whose turn it is follows from the version of the lake, so that it needs no process that lives long: the call whose commits
bring the lake past a multiple of `EVERY` looks at the objects that it has just changed. Such a turn harms nobody: its own
commit changes no row, gives way to every other, and a failure is logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from datetime import timedelta

from nabla.lake.context import LakeContext
from nabla.lake.housekeeping.compaction import Effort, compact_or_give_way
from nabla.lake.housekeeping.feeds import shorten_feeds
from nabla.lake.housekeeping.settings import SETTING, Retention, load_settings
from nabla.lake.housekeeping.trimming import trim_logs
from nabla.lake.vacuum import vacuum_some
from nabla.storage.machine import current

EVERY = 31
"""Commits of the lake between two turns. A prime number, so that no rhythm of writers meets always the same one of them."""
EVERY_TRIM = 8 * EVERY
"""Commits between two looks at the logs, which are lists of many files."""
MOST_OBJECTS = 16
"""Objects that one turn looks at."""
EFFORT = Effort(least=24, most_rows=262_144)
"""Small files are merged from so many on, and no more rows at a time than take a moment."""
MOST_DELETED = 4_000
"""Files that one turn deletes: so many from each log, and so many others."""
REST = 20
"""A look at logs and folders is followed by a rest of so many times as long: it takes a twentieth of the time at most."""

_LOG = logging.getLogger("nabla")


def is_switched_off() -> bool:
    """Whether this process does no housekeeping by itself."""
    return os.environ.get(SETTING, "on").lower() in ("off", "0", "false", "no")


def take_turn(context: LakeContext, before: int, moved: Collection[str]) -> None:
    """Do a piece of housekeeping, if the commits of a call since version `before` of the lake make it this call's turn."""
    if not moved or not context.log.is_whole or is_switched_off():
        return
    after = context.log.state().version
    if before // EVERY == after // EVERY:
        return
    try:
        settings = load_settings(context.log)
        if not settings.automatic:
            return
        names = sorted(moved)[:MOST_OBJECTS]
        with context.events.run("optimize", names):
            shorten_feeds(context, settings.feeds, names)
            compact_or_give_way(context, names, EFFORT, attempts=1)
            if before // EVERY_TRIM != after // EVERY_TRIM and current().now() >= context.rests_until:
                _forget(context, names, settings.history)
    except Exception as error:  # the commit of the caller stands, whatever happens here
        _LOG.warning("housekeeping was put off, and harms nothing: %s", error)


def _forget(context: LakeContext, names: Collection[str], history: Retention) -> None:
    """Trim logs, and delete files that only versions had which are older than the history that is kept."""
    if not isinstance(history, timedelta):
        return
    begun = current().now()
    trim_logs(context, history, names, MOST_DELETED)
    vacuum_some(context, names, history, MOST_DELETED)
    context.rests_until = current().now() + REST * (current().now() - begun)
