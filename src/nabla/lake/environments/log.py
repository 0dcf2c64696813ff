"""The log of a lake as an environment shows it: its own objects in front of the lake's.

What an environment does not have itself is shown as it is in the lake, as a table to be read only: views of the lake are not
maintained here. A view of the lake that reads, directly or through others, something that the environment has changed is not
shown, because it would be another one here. All commits go to the lake's log, where objects of environments have names of their
own, so they cannot touch anything of the lake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructField, StructType

from nabla.errors import NablaError
from nabla.lake.objects.graph import LOST, is_derived, sources_of
from nabla.lake.objects.view import load_view
from nabla.storage.catalog import ENVIRONMENT, ERAS, GONE, PATHS, REDEFINED, SAME_AS, Entry, LakeState
from nabla.storage.lake_history import Record
from nabla.storage.lakelog import LakeLog, Reads
from nabla.storage.locations import Location


class EnvironmentLog(LakeLog):
    """The log of a lake, seen through an environment."""

    def __init__(self, path: Location, environment: str) -> None:
        super().__init__(path)
        self.environment = environment
        self._shown: tuple[LakeState, LakeState] | None = None

    is_whole = False

    @property
    def shown_as(self) -> str:
        return f"{self.path}#{self.environment}"

    def stored_name(self, name: str) -> str:
        """The name under which the lake's log has an object of this environment."""
        return f"{self.environment}/{name}"

    def state(self, version: int | None = None) -> LakeState:
        whole = self.whole_state(version)
        if version is not None:
            return show(whole, self.environment)
        if self._shown is None or self._shown[0] is not whole:
            self._shown = whole, show(whole, self.environment)
        return self._shown[1]

    def is_shared(self, name: str) -> bool:
        whole = self.whole_state()
        return self.stored_name(name) not in whole.environments and name in whole.entries

    def origin(self, entry: Entry) -> Entry:
        return self.whole_state().entries[entry.name] if self.is_shared(entry.name) else entry

    def releasable(self, names: Collection[str], changed: Collection[str]) -> set[str]:
        """The own objects among `names` that may be read from the lake again: what they read there is the lake's here, too.
        Those that have `changed` will be the environment's own, or are among these."""
        whole = self.whole_state()
        own = {name for name, entry in own_entries(whole, self.environment).items() if entry.kind != GONE}
        found = own & {*names} & whole.entries.keys()
        while True:
            kept = dict.fromkeys((own | {*changed}) - found, Entry("", GONE, {}, {}))
            shown = _Shown(whole, kept)
            lost = {name for name in found if not shown.shows(name)}
            if not lost:
                return found
            found -= lost

    def commit(
        self,
        changes: Mapping[str, Entry | None],
        expected: LakeState,
        operation: str,
        info: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Reads = lambda state: (),
        transaction: str = "",
        cutoff: float | None = None,
    ) -> LakeState:
        """Commit changes of the environment's own objects. NABLA_ENVIRONMENT for one of the lake's."""
        whole = expected.beneath
        assert whole is not None
        header_of(whole, self.environment, self.path)
        after = replace(expected, entries=expected.changed(changes))
        stored: dict[str, Entry | None] = {}
        for name, entry in changes.items():
            if entry is not None:
                self._refuse_shared(entry, whole)
                stored[self.stored_name(name)] = _with_paths(entry, after)
            elif name in whole.entries:
                stored[self.stored_name(name)] = Entry(name, GONE, {}, {})
            else:
                stored[self.stored_name(name)] = None

        def own_reads(state: LakeState) -> list[str]:
            """Objects of the lake may change meanwhile: whoever was computed from them is behind, or has lost its source."""
            names = map(self.stored_name, ("", *reads(show(state, self.environment))))
            return [name for name in names if name in state.environments or name == self.stored_name("")]

        said = {self.stored_name(name): about for name, about in (info or {}).items()}
        committed = super().commit(stored, whole, operation, said, own_reads, transaction, cutoff)
        return show(committed, self.environment)

    def history(self, name: str | None = None, limit: int | None = None) -> Iterator[Record]:
        """The commits that changed objects of this environment."""
        own = self.stored_name("")
        for record in super().history(None if name is None else self.stored_name(name), limit):
            objects = {n.removeprefix(own): said for n, said in record.objects.items() if n.startswith(own)}
            if objects:
                yield replace(record, objects=objects)

    def refuse_here(self, what: str) -> None:
        raise NablaError(
            "NABLA_ENVIRONMENT",
            f"{what} is for the lake itself",
            place=f'environment "{self.environment}"',
            remedy="Open the lake without an environment.",
        )

    def _refuse_shared(self, entry: Entry, whole: LakeState) -> None:
        shared = whole.entries.get(entry.name)
        paths = {part.path for part in shared.parts.values()} if shared is not None else set()
        own = self.stored_name(entry.name) in whole.environments
        if entry.kind != "registered" and any(part.path in paths for part in entry.parts.values()) and not own:
            raise NablaError(
                "NABLA_ENVIRONMENT",
                f'"{entry.name}" belongs to the lake, and an environment only reads it',
                place=f'environment "{self.environment}"',
                remedy="Open the lake without an environment to change it.",
            )


def show(whole: LakeState, environment: str) -> LakeState:
    """A state of the lake as an environment shows it."""
    return _Shown(whole, own_entries(whole, environment)).state()


def header_of(state: LakeState, name: str, path: str) -> Entry:
    """The entry of an environment itself."""
    header = state.environments.get(f"{name}/")
    if header is None:
        there = sorted(n.removesuffix("/") for n, e in state.environments.items() if e.kind == ENVIRONMENT)
        raise NablaError(
            "NABLA_NO_ENVIRONMENT",
            f'there is no environment "{name}"',
            place=f"lake {path}",
            remedy=f"There are {', '.join(there)}." if there else "Make it with `nabla run --env NAME`.",
        )
    return header


def own_entries(whole: LakeState, environment: str) -> dict[str, Entry]:
    """The objects of an environment by their names; those that it lacks are of the kind `GONE`."""
    prefix = f"{environment}/"
    entries = {n.removeprefix(prefix): e for n, e in whole.environments.items() if n.startswith(prefix)}
    return {name: entry for name, entry in entries.items() if entry.kind != ENVIRONMENT}


class _Shown:
    """Puts the entries of an environment before those of the lake."""

    def __init__(self, whole: LakeState, own: Mapping[str, Entry]) -> None:
        self.whole = whole
        self.own = own
        self._known: dict[str, bool] = {}

    def state(self) -> LakeState:
        shared = {n: _as_table(e) for n, e in self.whole.entries.items() if n not in self.own and self.shows(n)}
        own = {n: e for n, e in self.own.items() if e.kind != GONE and self.shows(n)}
        there = shared | own
        entries = shared | {name: _with_lost(entry, there) for name, entry in own.items()}
        return LakeState(self.whole.version, entries, self.whole.file, {}, self.whole)

    def shows(self, name: str) -> bool:
        """Whether an object can be read here: all that it reads is there, and nothing of it has changed if it is the lake's."""
        if name not in self._known:
            self._known[name] = True  # views of a recursion may read each other
            self._known[name] = self._can_be_read(name)
        return self._known[name]

    def _can_be_read(self, name: str) -> bool:
        if name in self.own:
            entry = self.own[name]
            return entry.kind != GONE and all(self.shows(source) for source in sources_of(entry))
        found = self.whole.entries.get(name)
        if found is None or found.kind == "constraint":
            return False
        return all(source not in self.own and self.shows(source) for source in sources_of(found))


def _as_table(entry: Entry) -> Entry:
    """A view of the lake as a table that others write. A table is one already."""
    if not is_derived(entry):
        return entry
    view = load_view(entry.name, entry.definition)
    fields = zip(view.outputs, view.schema.fields, strict=True)
    columns = StructType([StructField(name, field.dataType, True) for name, field in fields])
    facts = {fact: entry.facts[fact] for fact in ("rows", SAME_AS) if fact in entry.facts}
    altered = {key: entry.definition[key] for key in (ERAS, REDEFINED) if key in entry.definition}
    definition = {"schema": columns.json(), "key": [], "foreign_keys": {}, **altered}
    return Entry(entry.name, "table", definition, {"data": entry.parts["data"]}, facts)


def _with_paths(entry: Entry, state: LakeState) -> Entry:
    """An entry that says which tables it was computed from: others may take their names later."""
    there = {
        source: state.entries[source].parts["data"].path for source in sources_of(entry) if source in state.entries
    }
    return replace(entry, facts={**entry.facts, PATHS: there}) if there else entry


def _with_lost(entry: Entry, there: Mapping[str, Entry]) -> Entry:
    """An entry that knows which of its sources are others by now than those that it was computed from."""
    known = entry.facts.get(PATHS, {})
    sources = entry.facts.get("sources", {})
    lost = {s: LOST for s in sources if s in there and known.get(s) != there[s].parts["data"].path}
    return replace(entry, facts={**entry.facts, "sources": {**sources, **lost}}) if lost else entry
