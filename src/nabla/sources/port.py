"""The port for tables of others: what the lake asks of a source, whatever kind it is.

A source says where it stands (`look`) without reading rows, and hands rows over as Parquet files (`write`). Where it is made
of pieces, parts that change only as a whole such as files, its change between two looks is the pieces that came and went, and
only those are read. Where it is not (`pieces` is None), all rows are read and compared with those that the lake has.

The lake keeps a copy of the rows as a table of its own. So a version of a source that others have overwritten or deleted can
still be read, and everything that works for tables of the lake works for the copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql.types import StructType

from nabla.errors import NablaError

MADE_AGAIN = "it was created again under its name"


@dataclass(frozen=True)
class Piece:
    """A part of a source. Two with the same `digest` have the same rows; those with the same `stamp` need not be looked at to
    know that they have. A stamp may be empty: then it says nothing."""

    stamp: str
    digest: str


@dataclass(frozen=True)
class Position:
    """Where a source stands. `identity` differs for another table of the same name; `version` is what the source calls this
    state of it, for people. `schema` is what it has now. `pieces` are None where its rows have to be compared."""

    identity: str
    version: str
    schema: StructType
    pieces: Mapping[str, Piece] | None


class Origin(Protocol):
    """A table that others write."""

    @property
    def place(self) -> str:
        """Where it is, for messages."""

    def look(self, known: Mapping[str, Piece]) -> Position:
        """Where it stands now. Pieces that are `known` are not looked at again if their stamps are the same."""

    def has_moved(self, identity: str, version: str, known: Mapping[str, Piece]) -> bool | None:
        """Whether it may have changed since it stood there, at little cost; None where only a comparison could tell."""

    def write(self, position: Position, schema: StructType, numbers: Mapping[str, int] | None, folder: str) -> int:
        """Write rows into a new folder as Parquet files: those of the pieces that have `numbers`, each with its piece's number
        in the column `PIECE`, or all of a source without pieces. They have the columns of `schema` under its names. Gives the
        number of bytes that had to be read, as far as that is known. The source must still stand at the position: NABLA_MOVING
        where it does not."""


Definition = Mapping[str, Any]
"""A source as the lake stores it: its `kind`, and what that kind needs to find it again."""


def away(place: str, why: str) -> NablaError:
    """The error for a source that cannot be found or read now."""
    return NablaError(
        "NABLA_AWAY",
        f"the source is away: {why}",
        place=place,
        remedy="Bring it back, or drop what reads it and then the table. Other tables and views are not concerned.",
    )


def moving(place: str) -> NablaError:
    """The error for a source that was written to while it was read."""
    return NablaError(
        "NABLA_MOVING",
        "it was changed while it was read",
        place=place,
        remedy="Refresh again. Writers should put files into place whole, by renaming them.",
    )


def bad_file(place: str, why: str) -> NablaError:
    return NablaError(
        "NABLA_BAD_FILE",
        f"the file cannot be read: {why}",
        place=place,
        remedy="Mend or remove the file, or register the source with other options.",
    )


def bad_row(place: str, row: str) -> NablaError:
    return NablaError(
        "NABLA_BAD_ROW",
        f"a row does not have the registered columns: {row}",
        place=place,
        remedy='Mend or remove it, or register the files with bad_rows="rescue", which keeps such rows as text.',
    )
