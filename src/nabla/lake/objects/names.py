"""Names in a lake: objects are found by them, and new names, columns and keys are checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from nabla.constraints import key
from nabla.engine import intake, types
from nabla.engine.feed import FEED_COLUMNS
from nabla.errors import NablaError, wrong_argument
from nabla.lake.objects.graph import is_derived, sources_of
from nabla.lake.objects.sources import columns_of
from nabla.lake.objects.view import View, load_view
from nabla.storage.catalog import RELIES_ON, Entry, LakeState

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
UNKNOWN = {
    "table": "NABLA_UNKNOWN_TABLE",
    "view": "NABLA_UNKNOWN_VIEW",
    "constraint": "NABLA_UNKNOWN_CONSTRAINT",
}


def check_version(entry: Entry, version: int, latest: int | None = None) -> None:
    """Refuse a version that an object never had; the latest, if it is known, is the last that it has."""
    if version < 0 or (latest is not None and version > latest):
        raise NablaError(
            "NABLA_NO_VERSION",
            f"there is no version {version}",
            place=f'"{entry.name}"',
            remedy="Versions begin with 0." if latest is None else f"The latest is {latest}.",
        )


def a_kind(entry: Entry) -> str:
    """What an object is, for a sentence."""
    return f"a {'registered table' if entry.kind == 'registered' else entry.kind}"


def is_nested(entry: Entry) -> bool:
    """Whether an object is a nested table, whose rows are in partitioned normal form."""
    return bool(entry.definition.get("nested"))


@dataclass(frozen=True)
class Names:
    """The names of one state of a lake: finds objects by name, whatever its case, and checks new names and definitions."""

    state: LakeState
    path: str

    def find(self, name: str) -> Entry | None:
        """The object of this name, if there is one."""
        if name in self.state.entries:
            return self.state.entries[name]
        return next((e for n, e in self.state.entries.items() if n.casefold() == name.casefold()), None)

    def entry(self, name: str, *kinds: str) -> Entry:
        """The object of this name, which has to be of one of these kinds, if any are given."""
        entry = self.find(name)
        if entry is None or (kinds and entry.kind not in kinds):
            there = [n for n, e in self.state.entries.items() if not kinds or e.kind in kinds]
            raise NablaError(
                UNKNOWN[kinds[0] if kinds else "table"],
                f'there is no {kinds[0] if kinds else "table or view"} "{name}"',
                place=f"lake {self.path}",
                remedy=f"There are {', '.join(there)}." if there else "Create it first.",
            )
        return entry

    def check_new(self, name: str) -> None:
        """Refuse a name that is no identifier, or that is taken."""
        if not _NAME.fullmatch(name):
            raise NablaError(
                "NABLA_NAME", f"{name!r} cannot be a name", place="name", remedy="Use letters, digits and underscores."
            )
        existing = self.find(name)
        if existing is not None:
            raise NablaError(
                "NABLA_EXISTS",
                f'there is {a_kind(existing)} "{existing.name}" already',
                place=f"lake {self.path}",
                remedy="Choose another name, or drop it first.",
            )

    def exists(self, existing: Entry, view: View) -> NablaError:
        """The error for a view whose name is taken."""
        same = existing.kind == "view" and existing.definition["plan"] == view.to_json()["plan"]
        if existing.kind == "view" and not same:
            return NablaError(
                "NABLA_DEFINITION_CHANGED",
                f'view "{existing.name}" exists with another definition',
                place=f"lake {self.path}",
                remedy="Pass rebuild=True to replace it and compute it anew.",
            )
        return NablaError(
            "NABLA_EXISTS",
            f'there is {a_kind(existing)} "{existing.name}" already',
            place=f"lake {self.path}",
            remedy="Choose another name, drop it first, or pass rebuild=True to build it anew.",
        )

    def check_view(self, view: View) -> None:
        """Refuse columns that cannot be stored."""
        check_columns(view.outputs, f'view "{view.name}"')
        types.check_storable(
            StructType([types.field_like(f, f.name) for f in view.schema.fields]), f'view "{view.name}"'
        )

    def check_replacement(self, view: View, existing: Entry) -> None:
        """Refuse a view that takes the place of something else than a view, or that would read itself."""
        if existing.kind != "view":
            raise self.exists(existing, view)
        upstream: set[str] = set()

        def visit(names: Iterable[str]) -> None:
            for name in names:
                upstream.add(name)
                if is_derived(self.state.entries[name]):
                    visit(load_view(name, self.state.entries[name].definition).sources)

        visit(view.sources)
        if existing.name in upstream:
            raise NablaError(
                "NABLA_CYCLE",
                f'view "{view.name}" would depend on itself',
                place=f'view "{view.name}"',
                remedy="Read the tables it is made from instead.",
            )

    def check_foreign_keys(
        self, foreign_keys: Mapping[str, str] | None, shape: StructType, what: str
    ) -> dict[str, str]:
        """The declared foreign keys of a table, which have to name columns that there are."""
        for column, target in (foreign_keys or {}).items():
            table, _, field = target.partition(".")
            entry = self.find(table)
            known = entry is not None and field in columns_of(entry)
            if column not in shape.names or not known:
                raise NablaError(
                    "NABLA_FOREIGN_KEY",
                    f'"{column}" → "{target}" does not name a column of the table and one of another table',
                    place=what,
                    remedy='Write it as {"customer": "customers.id"}, and create the other table first.',
                )
        return dict(foreign_keys or {})

    def droppable(self, name: str, kinds: tuple[str, ...]) -> Entry:
        """A table or view that nothing depends on."""
        entry = self.entry(name)
        if entry.kind not in kinds:
            raise NablaError(
                UNKNOWN[kinds[0]],
                f'"{entry.name}" is {a_kind(entry)}',
                place=f"lake {self.path}",
                remedy="Use drop_view for views, drop_table for tables and drop_constraint for constraints.",
            )
        if entry.definition.get("rules"):
            raise NablaError(
                "NABLA_IN_USE",
                f'"{entry.name}" is a predicate of the rules "{entry.definition["rules"]["name"]}"',
                place=f"lake {self.path}",
                remedy="Use drop_rules.",
            )
        self._refuse_readers(entry.name)
        if entry.kind == "constraint":
            self._refuse_relying(entry)
        return entry

    def _refuse_relying(self, constraint: Entry) -> None:
        """Keep a constraint that enforces a key by which a detached view reads its tables' rows from its own."""
        relying = {n: e.definition.get(RELIES_ON, {}) for n, e in self.state.entries.items()}
        views = sorted(
            n for n, keys in relying.items() if any(key(t, *k) == constraint.definition["sql"] for t, k in keys.items())
        )
        if views:
            raise NablaError(
                "NABLA_IN_USE",
                f'{", ".join(views)} can do without sources because of the key that "{constraint.name}" enforces',
                place=f"lake {self.path}",
                remedy="Drop these first, or make them again without detached=True.",
            )

    def auxiliary_to(self, view: str) -> list[str]:
        """The views that go with a view, because they were made for it."""
        own = [n for n, e in self.state.entries.items() if e.definition.get("serves") == view]
        for name in own:
            self._refuse_readers(name, besides=view)
        return own

    def _refuse_readers(self, name: str, besides: str = "") -> None:
        readers = [n for n, e in self.state.entries.items() if name in sources_of(e) and n != besides]
        if readers:
            raise NablaError(
                "NABLA_IN_USE",
                f'"{name}" is read by {", ".join(readers)}',
                place=f"lake {self.path}",
                remedy="Drop these first.",
            )


def shape_of(
    schema: str | StructType | None, data: intake.Data, what: str, start_spark: Callable[[], SparkSession]
) -> StructType:
    """The schema of a new table: as given, or that of its data. Spark parses texts, so a session must be there for one."""
    if schema is not None:
        if isinstance(schema, str):
            start_spark()
        shape = types.parse(schema) if isinstance(schema, str) else schema
        if not isinstance(shape, StructType):
            raise wrong_argument("schema", schema, 'a text such as "id BIGINT, name STRING", or a StructType')
        types.check_declared(shape, what)
        return shape
    if data is None:
        raise NablaError(
            "NABLA_NO_SCHEMA", f"{what} has neither a schema nor data", place="schema=", remedy="Pass one of them."
        )
    return intake.schema_of(data, what)


def check_columns(names: Sequence[str], what: str) -> None:
    """Refuse columns that Delta or a change feed could not tell apart."""
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise NablaError(
                "NABLA_DUPLICATE_COLUMN",
                f'two columns are called "{name}"',
                place=what,
                remedy="Rename one of them with AS.",
            )
        if name in ("_n", *FEED_COLUMNS):
            raise NablaError(
                "NABLA_RESERVED_COLUMN",
                f'"{name}" is a name that change feeds use',
                place=what,
                remedy="Rename the column.",
            )
        seen.add(name.casefold())


def key_of(key: str | Sequence[str] | None, shape: StructType, what: str) -> list[str]:
    """The columns of a declared key, which have to be columns of the table."""
    keys = [key] if isinstance(key, str) else list(key or ())
    for column in keys:
        if column not in shape.names:
            raise NablaError(
                "NABLA_KEY",
                f'the key names "{column}", which is no column',
                place=what,
                remedy=f"Use {', '.join(shape.names)}.",
            )
    return keys
