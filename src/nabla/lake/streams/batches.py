"""Batches of a stream that are added to a table exactly once: the commit that adds one names the stream and the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame

from nabla.lake.context import LakeContext
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.transaction import Operation, Transaction
from nabla.storage.catalog import STREAMS, Entry


@dataclass(frozen=True)
class Progress:
    """How far a stream into a table is: its last batch there is, -1 before the first. A stream that begins anew has a higher
    `generation`, and counts its batches from 0 again."""

    generation: int = 0
    batch: int = -1


class _Repeated(Exception):
    """The table has the batch already."""


def progress_of(entry: Entry, stream: str) -> Progress:
    """How far a stream is, as the table says."""
    generation, batch = entry.facts.get(STREAMS, {}).get(stream, (0, -1))
    return Progress(int(generation), int(batch))


def add_batch(context: LakeContext, table: str, stream: str, batch: Progress, rows: DataFrame) -> bool:
    """Add a batch in a transaction of its own; False if the table has it already."""
    return apply_batch(context, table, stream, batch, lambda transaction: transaction.insert(table, rows))


def apply_batch(
    context: LakeContext, table: str, stream: str, batch: Progress, change: Callable[[Transaction], None]
) -> bool:
    """Make the change of a batch in a transaction of its own; False if the table has it already."""
    transaction = Transaction(context)
    try:
        with transaction:
            transaction.apply(table, _noting({stream: batch}))
            change(transaction)
    except _Repeated:
        return False
    return True


def restart(context: LakeContext, table: str, generations: Mapping[str, int]) -> None:
    """Empty a table, and let the streams into it begin anew, with these generations."""
    with Transaction(context) as transaction:
        transaction.delete(table, where="true")
        transaction.apply(table, _noting({stream: Progress(number) for stream, number in generations.items()}))


def _noting(batches: Mapping[str, Progress]) -> Operation:
    """Let the commit of a table say that it has these batches."""

    def note(change: TableChange) -> None:
        known: dict[str, Any] = dict(change.entry.facts.get(STREAMS, {}))
        for stream, new in batches.items():
            old = progress_of(change.entry, stream)
            if new.generation < old.generation or (new.generation == old.generation and new.batch <= old.batch):
                raise _Repeated
            known[stream] = [new.generation, new.batch]
        change.entry = replace(change.entry, facts={**change.entry.facts, STREAMS: known})

    return note
