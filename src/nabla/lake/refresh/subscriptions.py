"""Condition monitoring: whoever asked for the changes of a view is told them, after they were committed.

A subscription remembers the version that it was last told about. What it is told next is read from the view's feed: all
that happened since, whoever refreshed the view and how often, as one minimal change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StructType

from nabla._cached import cached_property
from nabla.engine import types
from nabla.engine.apply import repeated, split
from nabla.lake.objects.names import columns_of
from nabla.lake.objects.sources import make_source
from nabla.storage.catalog import Entry, LakeState

if TYPE_CHECKING:
    from nabla.lake.facade import Lake

_LOG = logging.getLogger("nabla")


@dataclass(frozen=True, eq=False)
class ViewChange:
    """The minimal change of a view between two of its versions. `signed` has a row for each that came or went, with the
    number of copies that came (positive) or went (negative) in its last column."""

    view: str
    since: int
    version: int
    schema: StructType
    signed: pa.Table

    @cached_property
    def inserted(self) -> list[Row]:
        return self._rows(split(self.signed)[1])

    @cached_property
    def deleted(self) -> list[Row]:
        return self._rows(split(self.signed)[0])

    def _rows(self, counted: pa.Table) -> list[Row]:
        rows: Any = ArrowTableToRowsConversion.convert(repeated(counted).rename_columns(self.schema.names), self.schema)
        return list(rows)

    def to_dict(self) -> dict[str, Any]:
        rows = {"inserted": self.inserted, "deleted": self.deleted}
        return {"view": self.view, "since": self.since, "version": self.version, **rows}

    def __str__(self) -> str:
        lines = [f"{self.view}@{self.version}: {len(self.inserted)} inserted, {len(self.deleted)} deleted"]
        lines += [f"- {tuple(row)}" for row in self.deleted] + [f"+ {tuple(row)}" for row in self.inserted]
        return "\n".join(lines)


Callback = Callable[[ViewChange], object]


class Subscription:
    """One callback for the changes of one view; `cancel` ends it. `error` is what the callback last failed with."""

    def __init__(self, lake: Lake, entry: Entry, callback: Callback, since: int | None) -> None:
        self.view = entry.name
        self.error: Exception | None = None
        self._lake = lake
        self._callback = callback
        self._built = entry.parts["data"].path
        self._told = entry.parts["data"].version if since is None else since
        self._guard = threading.Lock()
        self._busy = self._again = False

    @property
    def version(self) -> int:
        """The version of the view that was told last."""
        return self._told

    def cancel(self) -> None:
        self._lake._subscriptions.remove(self)

    def deliver(self) -> None:
        """Tells what there is to tell. Of several threads one does, the others leave it to that one; so does a callback
        that refreshes the lake itself."""
        with self._guard:
            self._again = True
            if self._busy:
                return
            self._busy = True
        while self._wanted():
            try:
                self._tell(self._lake._log.state())
            except BaseException:
                self._busy = False
                raise

    def _wanted(self) -> bool:
        with self._guard:
            wanted, self._again = self._again, False
            self._busy = wanted
            return wanted

    def _tell(self, state: LakeState) -> None:
        entry = state.entries.get(self.view)
        if entry is None or entry.kind != "view":
            return
        part = entry.parts["data"]
        if part.path != self._built:  # built again: its versions and its feed began anew
            self._built, self._told = part.path, 0
        if part.version <= self._told:
            return
        try:
            change = self._change(entry, state)
            if change.signed.num_rows:
                self._callback(change)
        except Exception as error:
            # The refresh stands. The next one brings these changes again, together with its own.
            self.error = error
            _LOG.exception('the callback for changes of "%s" failed', self.view)
        else:
            self._told, self.error = part.version, None

    def _change(self, entry: Entry, state: LakeState) -> ViewChange:
        version = entry.parts["data"].version
        source = make_source(self._lake, entry.name, state, self._told, version)
        schema = types.renamed(types.from_json(source.after.schema_json), columns_of(entry))
        return ViewChange(entry.name, self._told, version, schema, source.change_rows())


class Subscriptions:
    """All subscriptions of a lake in this process."""

    def __init__(self) -> None:
        self._all: tuple[Subscription, ...] = ()
        self._lock = threading.Lock()

    def add(self, subscription: Subscription) -> None:
        with self._lock:
            self._all += (subscription,)

    def remove(self, subscription: Subscription) -> None:
        with self._lock:
            self._all = tuple(s for s in self._all if s is not subscription)

    def deliver(self) -> None:
        for subscription in self._all:
            subscription.deliver()
