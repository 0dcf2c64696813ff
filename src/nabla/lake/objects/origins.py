"""The sources that tables of a lake are copies of: found again from their definitions, and where each stood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from nabla.engine.spark.catalog_tables import Described, describe, views_in
from nabla.errors import NablaError
from nabla.lake.context import LakeContext
from nabla.sources.catalog import CatalogTable
from nabla.sources.files import Files
from nabla.sources.iceberg import Iceberg
from nabla.sources.port import Definition, Origin, Piece
from nabla.sources.query import Query, own_rows
from nabla.storage import reading
from nabla.storage.catalog import LISTED, ORIGIN, Entry, LakeState
from nabla.storage.copied_table import PIECES
from nabla.storage.foreign_files import path_of

PIECE_SCHEMA = pa.schema(
    [("number", pa.int64()), ("name", pa.string()), ("stamp", pa.string()), ("digest", pa.string())]
)
"""A row a piece, in the part `PIECES` of a copy."""


@dataclass(frozen=True)
class Known:
    """The pieces that a copy was made from, with the numbers of each, by name."""

    pieces: Mapping[str, Piece]
    numbers: Mapping[str, int]

    def to_table(self) -> pa.Table:
        rows = [
            {"number": self.numbers[name], "name": name, "stamp": piece.stamp, "digest": piece.digest}
            for name, piece in self.pieces.items()
        ]
        return pa.Table.from_pylist(rows, PIECE_SCHEMA)


def is_copy(entry: Entry) -> bool:
    return ORIGIN in entry.definition


def copies_in(state: LakeState, names: Iterable[str]) -> list[Entry]:
    """The copies among objects of a lake."""
    return [state.entries[name] for name in names if is_copy(state.entries[name])]


def origin_of(context: LakeContext, entry: Entry) -> Origin:
    """The source of a copy. Whoever wrote the lake has named it, so that only a lake that is trusted reads it: its rows become
    files of the lake."""
    context.trust.require("reading a source outside of the lake", f'table "{entry.name}"')
    return restore(context, entry.definition[ORIGIN])


def restore(context: LakeContext, definition: Definition) -> Origin:
    """A source from its definition."""
    match definition["kind"]:
        case "files":
            return Files.restore(definition, partial(context.spark.workspace, "large"))
        case "iceberg":
            return Iceberg.restore(definition)
        case "table":
            return CatalogTable.restore(
                definition, partial(describe_table, context), partial(_ask, context), context.path
            )
        case "query":
            return Query.restore(definition, partial(_ask, context), context.path)
    raise NablaError(
        "NABLA_SOURCE",
        f"this Nabla knows no sources of the kind {definition['kind']!r}",
        place=f"lake {context.path}",
        remedy="Upgrade Nabla.",
    )


def known_of(context: LakeContext, entry: Entry) -> Known:
    """The pieces that a copy was made from; none for a source without pieces."""
    if PIECES not in entry.parts:
        return Known({}, {})
    rows = reading.read(context.log.snapshot(entry.parts[PIECES])).to_pylist()
    pieces = {row["name"]: Piece(row["stamp"], row["digest"]) for row in rows}
    return Known(pieces, {row["name"]: row["number"] for row in rows})


def behind(context: LakeContext, state: LakeState) -> tuple[set[str], dict[str, str]]:
    """The copies whose sources may have changed since, as far as can be told at little cost, and what is wrong with those
    that cannot be found, by name."""
    moved, problems = set(), {}
    for entry in copies_in(state, state.entries):
        stood = entry.facts[ORIGIN]
        try:
            known = known_of(context, entry).pieces
            if origin_of(context, entry).has_moved(stood["identity"], stood["version"], known):
                moved.add(entry.name)
        except NablaError as error:
            problems[entry.name] = f"{error.code}: {error.message}"
    return moved, problems


def last_copied(entry: Entry) -> str:
    """What it last took to bring a copy up to date."""
    last = entry.facts[ORIGIN]["last"]
    cost = f"{_in_bytes(last['read_bytes'])} read, {last['seconds']:.2f} s"
    if PIECES not in entry.parts:
        return f"all rows compared, {cost}"
    return f"{last['pieces']} files came or went, {cost}"


def _in_bytes(size: int) -> str:
    return f"{size} bytes" if size < 10_000 else f"{size / 1e6:.2f} MB"


def is_delta_by_path(described: Described) -> bool:
    """Whether a table of a catalog is read where its files are. One whose commits its catalog manages never is."""
    managed = any(feature in described.properties for feature in ("catalogManaged", "catalogOwned"))
    return described.provider.casefold() == "delta" and bool(described.location) and not managed


def check_listed(context: LakeContext, entry: Entry) -> None:
    """NABLA_REPLACED where the catalog has another table now under the name of one that is read where it is."""
    if LISTED not in entry.definition:
        return
    name = entry.definition[LISTED]
    if path_of(describe_table(context, name).location).rstrip("/") != entry.parts["data"].path:
        raise NablaError(
            "NABLA_REPLACED",
            f"{name} is a table in another place than when it was registered",
            place=f'table "{entry.name}"',
            remedy="Drop the views that read it and the table, register it again, and create the views again.",
        )


def describe_table(context: LakeContext, name: str) -> Described:
    """What the catalogs of the user's session say of a table."""
    context.spark.show_names()  # the lake's own tables are known, to be refused
    with context.translating(f"table {name}"):
        return describe(context.spark.home, name)


@contextmanager
def _ask(context: LakeContext, text: str) -> Iterator[DataFrame]:
    """The DataFrame of a query in the user's session. NABLA_CYCLE for one that reads the lake's own tables or views."""
    place = f"query {' '.join(text.split())[:80]!r}"
    own = {name.casefold() for name in context.log.state().entries}
    context.spark.show_names()
    with context.translating(place):
        frame = context.spark.home.sql(text)
        if not own.isdisjoint(name.casefold() for name in views_in(frame)):
            raise own_rows(place)
        yield frame
