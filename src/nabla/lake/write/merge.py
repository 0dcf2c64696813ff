"""MERGE: rows of a source put into a table, by a condition and clauses that mean what they mean in Spark.

The rows of the table that the condition can meet are found by its equations, as for an upsert. Spark then evaluates the
condition and the clauses over these few rows and the source. Where that would be too many rows for the driver, its executors
read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from nabla.algebra.expressions import quote
from nabla.engine import intake, types
from nabla.engine.large_change import change_rows, marked_places
from nabla.engine.marked_rows import FILE, PLACE, located_frame
from nabla.engine.spark.frames import Workspace, empty
from nabla.errors import NablaError
from nabla.frontends.spark_sql.equations import equations
from nabla.frontends.spark_sql.statements import Clause, Merge, frame_of
from nabla.lake.context import LakeContext
from nabla.lake.write import write_change
from nabla.lake.write.conditions import Seen, workspace_seeing
from nabla.lake.write.generated import number_rows, write_numbered
from nabla.lake.write.given_rows import NUMBER, StoredFrame, store_frame
from nabla.lake.write.table_change import TableChange
from nabla.lake.write.write_change import settle, take_over
from nabla.storage import bags, reading
from nabla.storage.bags import N
from nabla.storage.find_keys import find_few
from nabla.storage.find_rows import Located, fetch_rows, places_by_file

_ACTION, _OLD = "_nabla_action", "_nabla_old"
_NEW = "new "

Default = Callable[[str], Column]
"""The expression that a column of the table has where no value is given."""


@dataclass(frozen=True)
class _Target:
    """The rows of a table that a MERGE may change, as a frame with columns that say which row each is: its number in `held`, or
    its file and place."""

    frame: DataFrame
    identity: tuple[str, ...]
    held: pa.Table | None = None
    located: Located | None = None


@dataclass(frozen=True)
class _Effect:
    """Rows that one kind of clauses changes: their identities and new values under stored names, NULL where a row goes."""

    stored: StoredFrame
    deletes: bool
    inserts: bool


@dataclass(frozen=True)
class _Run:
    context: LakeContext
    change: TableChange
    merge: Merge
    workspace: Workspace
    default: Default
    effects: list[_Effect] = field(default_factory=list)


def merge_rows_by_clauses(
    context: LakeContext,
    change: TableChange,
    merge: Merge,
    seen: Seen,
    new_staging: Callable[[], str],
    default: Default,
) -> None:
    """Apply a MERGE to a table as the transaction sees it."""
    take_over(change)
    place = f'MERGE into "{change.name}"'
    with workspace_seeing(context, seen) as workspace, context.translating(place):
        run = _Run(context, change, merge, workspace, default)
        stored = store_frame(workspace, frame_of(workspace.session, merge.source))
        source = stored.frame.alias(merge.source_alias)
        target = _find_target(run, source, stored.count)
        effects = _effects(run, target, source)
        few = sum(effect.stored.count for effect in effects) <= write_change.MOST_ON_DRIVER or change.by_driver
        if target.held is not None or few:
            _apply_on_driver(run, target, effects)
        else:
            _apply_by_spark(run, effects, new_staging)


# ---------------------------------------------------------------- the rows of the table


def _find_target(run: _Run, source: DataFrame, count: int) -> _Target:
    change = run.change
    found = _find_by_equations(run, source, count)
    if found is not None:
        return found
    if change.pieces and not change.by_driver:
        settle(change)
    if change.pieces:
        whole = bags.counted(reading.read(change.snapshot))
        return _held(run, bags.repeat(bags.consolidate(pa.concat_tables([whole, change.net()]))), None)
    frame = located_frame(run.workspace, change.snapshot, change.visible.names)
    return _Target(frame.alias(run.merge.target.alias), (FILE, PLACE))


def _find_by_equations(run: _Run, source: DataFrame, count: int) -> _Target | None:
    """The rows whose columns equal values of the source where the condition demands it. None where it demands nothing of that
    kind, where they are too many, or where rows without a partner count, too."""
    change, merge = run.change, run.merge
    if merge.not_matched_by_source or count > write_change.MOST_ON_DRIVER:
        return None
    shape = types.rename(change.stored, change.visible.names)
    probe = empty(run.workspace.session, shape).alias(merge.target.alias)
    found = equations(probe, source, merge.on)
    if not found:
        return None
    stored = dict(zip(change.visible.names, change.stored.names, strict=True))
    keys = source.select(*(value.alias(stored[name]) for name, value in found.items())).distinct().toArrow()
    wanted = keys.cast(pa.schema([types.arrow_schema(change.stored).field(name) for name in keys.column_names]))
    located = find_few(change.snapshot, wanted, write_change.MOST_ON_DRIVER)
    if located is None:
        return None
    if not change.pieces:
        return _held(run, located.rows, located)
    net = change.net()
    unlimited = pa.repeat(pa.scalar(max(net.num_rows, 1), pa.int64()), wanted.num_rows)
    here = bags.match(net.select(wanted.column_names), wanted.append_column(N, unlimited))[0]
    rows = bags.consolidate(pa.concat_tables([bags.counted(located.rows), net.take(here)]))
    return _held(run, bags.repeat(rows), None)


def _held(run: _Run, rows: pa.Table, located: Located | None) -> _Target:
    change = run.change
    numbered = rows.append_column(_OLD, pa.arange(0, rows.num_rows))
    shape = StructType([*change.stored.fields, StructField(_OLD, LongType())])
    frame = run.workspace.hold(numbered, shape).toDF(*change.visible.names, _OLD)
    return _Target(frame.alias(run.merge.target.alias), (_OLD,), rows, located)


# ---------------------------------------------------------------- what happens to them


def _effects(run: _Run, target: _Target, source: DataFrame) -> list[_Effect]:
    merge = run.merge
    effects = []
    if merge.matched:
        pairs = target.frame.join(source, merge.on, "inner")
        effects.append(_decide(run, pairs, merge.matched, target.identity, f"{merge.source_alias}"))
        only = len(merge.matched) == 1 and merge.matched[0].action == "delete" and merge.matched[0].when is None
        if not only:
            _refuse_several(run, effects[-1], target)
    if merge.not_matched:
        new = source.join(target.frame, merge.on, "left_anti")
        effects.append(_decide(run, new, merge.not_matched, (), merge.source_alias))
    if merge.not_matched_by_source:
        alone = target.frame.join(source, merge.on, "left_anti")
        effects.append(_decide(run, alone, merge.not_matched_by_source, target.identity, None))
    return effects


def _decide(
    run: _Run, rows: DataFrame, clauses: Sequence[Clause], identity: Sequence[str], source: str | None
) -> _Effect:
    """For each row the first clause whose condition holds, and its new values. Spark evaluates the values of a clause only for
    its own rows."""
    change = run.change
    action: Column = F.lit(len(clauses))
    for number, clause in reversed(list(enumerate(clauses))):
        holds = F.lit(True) if clause.when is None else F.coalesce(clause.when, F.lit(False))
        action = F.when(holds, F.lit(number)).otherwise(action)
    chosen = rows.withColumn(_ACTION, action)
    raw: list[Column] = []
    given: dict[str, list[tuple[int, str]]] = {name: [] for name in change.visible.names}
    for number, clause in enumerate(clauses):
        for name, value in _clause_values(run, clause, source).items():
            given[name].append((number, f"v{number} {name}"))
            raw.append(F.when(F.col(_ACTION) == number, value).alias(f"v{number} {name}"))
    computed = chosen.select(*identity, _ACTION, *raw)
    stored = dict(zip(change.visible.names, change.stored.names, strict=True))
    new = [_fitted(run, computed, name, values).alias(f"{_NEW}{stored[name]}") for name, values in given.items()]
    frame = computed.select(*identity, _ACTION, *(new if raw else []))
    deletes = any(clause.action != "insert" for clause in clauses)
    return _Effect(store_frame(run.workspace, frame), deletes, bool(raw))


def _clause_values(run: _Run, clause: Clause, source: str | None) -> Mapping[str, Column]:
    """The values that a clause gives to the columns of the table, all of them."""
    change, alias = run.change, run.merge.target.alias
    if clause.action == "delete":
        return {}
    names = {name.casefold(): name for name in change.visible.names}
    if clause.values is None:
        return {name: F.col(f"{quote(source or '')}.{quote(name)}") for name in names.values()}
    unknown = [name for name in clause.values if name.casefold() not in names]
    if unknown:
        raise NablaError(
            "NABLA_UNKNOWN_COLUMN",
            f'there is no column "{unknown[0]}"',
            place=f'MERGE into "{change.name}"',
            remedy=f"It has the columns {', '.join(change.visible.names)}.",
        )
    given = {names[name.casefold()]: value for name, value in clause.values.items()}
    result = {}
    for name in names.values():
        if name in given:
            value = given[name]
            result[name] = run.default(name) if value is None else value
        else:
            old = clause.action == "update"
            result[name] = F.col(f"{quote(alias)}.{quote(name)}") if old else run.default(name)
    return result


def _fitted(run: _Run, computed: DataFrame, name: str, values: Sequence[tuple[int, str]]) -> Column:
    change = run.change
    result: Column = F.lit(None).cast(_stored_type(change, name))
    for number, column in values:
        fitted = intake.fit_column(quote(column), computed.schema[column].dataType, change.visible[name], change.name)
        result = F.when(F.col(_ACTION) == number, fitted).otherwise(result)
    return result


def _stored_type(change: TableChange, name: str) -> str:
    return change.stored[change.visible.names.index(name)].dataType.simpleString()


def _refuse_several(run: _Run, effect: _Effect, target: _Target) -> None:
    """Refuse a source of which several rows match the same row of the table, as Spark does."""
    again = effect.stored.frame.groupBy(*target.identity).count().where("count > 1").limit(1).collect()
    if again:
        raise NablaError(
            "NABLA_CARDINALITY",
            "several rows of the source match the same row of the table",
            place=f'MERGE into "{run.change.name}"',
            remedy="Let the source have one row for each row of the table, as with row_number() or GROUP BY.",
        )


# ---------------------------------------------------------------- applying it


def _apply_on_driver(run: _Run, target: _Target, effects: Sequence[_Effect]) -> None:
    change = run.change
    clauses = (run.merge.matched, run.merge.not_matched, run.merge.not_matched_by_source)
    kinds = [one for one in clauses if one]
    for effect, own in zip(effects, kinds, strict=True):
        found = effect.stored.frame.drop(NUMBER).where(f"{_ACTION} < {len(own)}").toArrow()
        if effect.deletes:
            _note_old(change, target, found)
        if effect.inserts:
            puts = [number for number, clause in enumerate(own) if clause.action != "delete"]
            new = found.filter(pc.is_in(found[_ACTION], value_set=pa.array(puts, found[_ACTION].type)))
            rows = new.select([f"{_NEW}{name}" for name in change.stored.names]).rename_columns(change.stored.names)
            if not effect.deletes:
                rows = number_rows(change, rows.rename_columns(change.visible.names)).rename_columns(
                    change.stored.names
                )
            change.pieces.append(bags.counted(types.conform(rows, change.stored)))


def _note_old(change: TableChange, target: _Target, found: pa.Table) -> None:
    """Note that the old versions of rows go, each once."""
    if target.held is not None:
        numbers = pc.unique(found[_OLD].combine_chunks()).sort()
        rows = target.held.take(numbers)
        located = target.located
        if located is not None:
            located = Located(rows, located.files.take(numbers), located.places.take(numbers))
    else:
        once = found.select([FILE, PLACE]).group_by([FILE, PLACE]).aggregate([])
        files, places = (once[name].combine_chunks() for name in (FILE, PLACE))
        located = fetch_rows(change.snapshot, places_by_file(files.cast(pa.string()), places.cast(pa.int64())))
        rows = located.rows
    if located is not None:
        change.located.append(located)
    change.pieces.append(types.conform(bags.negated(bags.counted(rows)), types.with_weight(change.stored)))


def _apply_by_spark(run: _Run, effects: Sequence[_Effect], new_staging: Callable[[], str]) -> None:
    """Millions of rows: they are marked in their files, and Spark writes the new ones."""
    change, workspace = run.change, run.workspace
    clauses = [one for one in (run.merge.matched, run.merge.not_matched, run.merge.not_matched_by_source) if one]
    places: dict[str, BitMap64] = {}
    written: list[str] = []
    for effect, own in zip(effects, clauses, strict=True):
        frame = effect.stored.frame.drop(NUMBER).where(f"{_ACTION} < {len(own)}")
        if effect.inserts:
            puts = [number for number, clause in enumerate(own) if clause.action != "delete"]
            new = frame.where(F.col(_ACTION).isin(puts))
            columns = [F.col(quote(f"{_NEW}{name}")).alias(name) for name in change.stored.names]
            written.append(new_staging())
            rows = new.select(*columns)
            if effect.deletes:
                rows.write.parquet(written[-1])
            else:
                write_numbered(change, rows.toDF(*change.visible.names), written[-1])
        if effect.deletes:
            for file, bits in marked_places(frame.select(FILE, PLACE).distinct()).items():
                places[file] = places[file] | bits if file in places else bits
    if places:
        names = change.visible.names
        done = change_rows(workspace, change.snapshot, names, places, new_staging, None)
        change.advance(done.adds, done.removes, done.inserted, done.deleted)
    change.written += written
