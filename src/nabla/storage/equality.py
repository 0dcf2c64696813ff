"""Equality of two columns, value by value, at any depth, as SQL groups them: NULL equals NULL.

Arrow compares simple values only. Lists are equal where their lengths are and their items, which lie side by side once
lists of different lengths are left out; structs where all their fields are.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from nabla.storage import bags

_FALSE = pa.scalar(False, pa.bool_())


def same_rows(one: pa.Table, other: pa.Table) -> pa.BooleanArray:
    """For each place whether two tables with one schema have the same row there."""
    result = pa.repeat(pa.scalar(True, pa.bool_()), one.num_rows)
    for ours, theirs in zip(one.columns, other.columns, strict=True):
        result = pc.and_(result, same(ours.combine_chunks(), theirs.combine_chunks()))
    return result


def same(one: pa.Array, other: pa.Array) -> pa.BooleanArray:
    """For each place whether two arrays of one type have the same value there."""
    if types.is_list(one.type) or types.is_large_list(one.type):
        equal = _same_lists(one, other)
    elif types.is_struct(one.type):
        equal = same_rows(_fields(one), _fields(other))
    elif types.is_nested(one.type):
        equal = _same_codes(one, other)
    else:
        ours, theirs = (bags.groupable(pa.chunked_array([array])).combine_chunks() for array in (one, other))
        equal = pc.fill_null(_equal(ours, theirs), _FALSE)
    valid = pc.and_(one.is_valid(), other.is_valid())
    return pc.or_(pc.and_(valid, equal), pc.and_(one.is_null(), other.is_null()))


def _equal(one: pa.Array, other: pa.Array) -> pa.Array:
    equal = pc.equal(one, other)
    if not types.is_floating(one.type):
        return equal
    return pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))


def _fields(structs: pa.StructArray) -> pa.Table:
    return pa.table(structs.flatten(), names=[str(i) for i in range(structs.type.num_fields)])


def _same_lists(one: pa.Array, other: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(one)
    alike = pc.fill_null(pc.equal(lengths, pc.list_value_length(other)), _FALSE)
    ours, theirs = one.filter(alike), other.filter(alike)
    different = pc.invert(same(ours.flatten(), theirs.flatten())).cast(pa.int64())
    before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(different)])
    ends = pc.cumulative_sum(pc.list_value_length(ours).cast(pa.int64()))
    starts = pc.subtract(ends, pc.list_value_length(ours).cast(pa.int64()))
    equal = pc.equal(before.take(ends), before.take(starts))
    return pc.replace_with_mask(pa.repeat(_FALSE, len(one)), alike, equal)


def _same_codes(one: pa.Array, other: pa.Array) -> pa.Array:
    both = bags.groupable(pa.chunked_array([one, other])).combine_chunks()
    return pc.fill_null(pc.equal(both.slice(0, len(one)), both.slice(len(one))), _FALSE)
