"""Subscriptions: callbacks that are called with the minimal change of a table or view after it was committed.

A subscription remembers the version that its callback knows. The next call gets everything that has changed since then as
one minimal change, whoever committed it and however often: a view's change is in its feed, a table's in its log.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.types import StructType

from nabla._cached import cached_property
from nabla.engine import types
from nabla.explain import notebook
from nabla.lake.objects.altered_changes import change_across
from nabla.lake.objects.names import Names, check_version
from nabla.lake.objects.sources import columns_of, current_version, make_source
from nabla.storage import bags
from nabla.storage.altered_table import eras_after
from nabla.storage.catalog import Entry, LakeState
from nabla.storage.lakelog import LakeLog

_LOG = logging.getLogger("nabla")


@dataclass(frozen=True, eq=False)
class ViewChange:
    """The minimal change of a table or view, whose name is `view`, between two of its versions. `signed` has a row for each
    that came or went, with the number of copies that came (positive) or went (negative) in its last column."""

    view: str
    since: int
    version: int
    schema: StructType
    signed: pa.Table

    @cached_property
    def inserted(self) -> list[Row]:
        return self._rows(bags.split(self.signed)[1])

    @cached_property
    def deleted(self) -> list[Row]:
        return self._rows(bags.split(self.signed)[0])

    def _rows(self, counted: pa.Table) -> list[Row]:
        rows: Any = ArrowTableToRowsConversion.convert(
            bags.repeat(counted).rename_columns(self.schema.names), self.schema
        )
        return list(rows)

    def to_dict(self) -> dict[str, Any]:
        rows = {"inserted": self.inserted, "deleted": self.deleted}
        return {"view": self.view, "since": self.since, "version": self.version, **rows}

    def __str__(self) -> str:
        lines = [f"{self.view}@{self.version}: {len(self.inserted)} inserted, {len(self.deleted)} deleted"]
        lines += [f"- {tuple(row)}" for row in self.deleted] + [f"+ {tuple(row)}" for row in self.inserted]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The first rows that went and came, for a notebook."""
        names = [field.name for field in self.schema.fields]
        changed = [("−", row) for row in self.deleted[:SHOWN]] + [("+", row) for row in self.inserted[:SHOWN]]
        rows = [[notebook.signed_mark(sign), *map(_as_text, row)] for sign, row in changed]
        said = f"version {self.version}: {len(self.inserted):,} inserted, {len(self.deleted):,} deleted"
        return notebook.card(self.view, said, notebook.table(["", *names], rows))


SHOWN = 20
"""Rows of each kind that a notebook shows."""


def _as_text(value: object) -> str | None:
    return None if value is None else str(value)


Callback = Callable[[ViewChange], object]


class Subscription:
    """One callback for the changes of one table or view; `cancel` ends it. `error` is what the callback last failed with."""

    def __init__(
        self, log: LakeLog, entry: Entry, callback: Callback, since: int | None, cancel: Callable[[Subscription], None]
    ) -> None:
        self.view = entry.name
        self.error: Exception | None = None
        self._log = log
        self._cancel = cancel
        self._callback = callback
        self._built = entry.parts["data"].path
        self._known = current_version(log, entry) if since is None else since
        self._guard = threading.Lock()
        self._busy = self._again = False

    @property
    def version(self) -> int:
        """The version of the table or view that the callback knows."""
        return self._known

    def cancel(self) -> None:
        self._cancel(self)

    def deliver(self) -> None:
        """Call the callback if the table or view has changed. Of several threads one does so, and the others leave it to that
        one; so does a callback that refreshes the lake itself."""
        with self._guard:
            self._again = True
            if self._busy:
                return
            self._busy = True
        while self._wanted():
            try:
                self._call(self._log.state())
            except BaseException:
                self._busy = False
                raise

    def _wanted(self) -> bool:
        with self._guard:
            wanted, self._again = self._again, False
            self._busy = wanted
            return wanted

    def _call(self, state: LakeState) -> None:
        entry = state.entries.get(self.view)
        if entry is None:
            return
        if entry.parts["data"].path != self._built:  # built again: its versions and its feed began anew
            self._built, self._known = entry.parts["data"].path, 0
        try:
            version = current_version(self._log, entry)
            if version <= self._known:
                return
            change = self._change(entry, state, version)
            if change.signed.num_rows:
                self._callback(change)
        except Exception as error:
            # The commit stands. The next call brings these changes again, together with those of later commits.
            self.error = error
            _LOG.exception('the callback for changes of "%s" failed', self.view)
        else:
            self._known, self.error = version, None

    def _change(self, entry: Entry, state: LakeState, version: int) -> ViewChange:
        source = make_source(self._log, entry.name, state, self._known, version)
        schema = types.rename(types.from_json(source.after.schema_json), columns_of(entry))
        altered = entry.kind == "table" and eras_after(entry.definition, self._known)
        rows = change_across(self._log, entry, self._known, version) if altered else source.change_rows()
        return ViewChange(entry.name, self._known, version, schema, rows)


class Subscriptions:
    """All subscriptions of a lake in this process."""

    def __init__(self, log: LakeLog) -> None:
        self._log = log
        self.active: tuple[Subscription, ...] = ()
        self._lock = threading.Lock()

    def add(self, name: str, callback: Callback, since: int | None) -> Subscription:
        """Subscribe a callback to the changes of a table or view after version `since`, or from now on."""
        entry = Names(self._log.state(), self._log.path).entry(name)
        if since is not None:
            check_version(entry, since)
        subscription = Subscription(self._log, entry, callback, since, self._remove)
        with self._lock:
            self.active += (subscription,)
        return subscription

    def _remove(self, subscription: Subscription) -> None:
        with self._lock:
            self.active = tuple(s for s in self.active if s is not subscription)

    def deliver(self, moved: Collection[str] | None = None) -> None:
        """Call all callbacks whose tables and views have changed since they were called last; with `moved`, only those of
        these tables and views."""
        for subscription in self.active:
            if moved is None or subscription.view in moved:
                subscription.deliver()
