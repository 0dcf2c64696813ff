"""Settling ORDER BY … LIMIT on the driver: the stored first rows and the change, by their places in the order.

Every row that comes before the last stored one is either stored or in the change. So if enough rows are left up to that
place, the new first rows are among them, and the rest of the relation need not be read. If it holds fewer rows than the
limit, all of them are stored.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from nabla.calculus.stages import TopRows
from nabla.storage.bags import N


def first_rows(stage: TopRows, touched: pa.Table) -> pa.Table | None:
    """The signed change of the first rows, or None where the rest of the relation has to be read."""
    width = len(stage.state)
    weight, new, place = touched.columns[width : width + 3]
    numbered = pa.table([place, new, weight, pa.arange(0, touched.num_rows)], names=["place", "new", "n", "row"])
    places = numbered.group_by(["place", "new"]).aggregate([("n", "sum"), ("row", "min")])
    old = places.filter(pc.and_(pc.equal(places["new"], 0), pc.greater(places["n_sum"], 0)))
    is_full = (pc.sum(old["n_sum"]).as_py() or 0) >= stage.limit
    if is_full:  # the rows after the last stored place are neither stored nor in the change
        places = places.filter(pc.less_equal(places["place"], pc.max(old["place"])))
    places = places.sort_by("place")
    stored: dict[int, int] = {}
    now: dict[int, int] = {}
    row: dict[int, int] = {}
    for at, is_new, n, first in zip(
        *(places[c].to_pylist() for c in ("place", "new", "n_sum", "row_min")), strict=True
    ):
        row[at] = min(first, row.get(at, first))
        now[at] = now.get(at, 0) + n
        if not is_new:
            stored[at] = n
    if is_full:
        now = {at: max(n, 0) for at, n in now.items()}
        if sum(now.values()) < stage.limit:
            return None
    elif any(n < 0 for n in now.values()):
        return None
    first, left = {}, stage.limit
    for at in sorted(now):
        first[at] = min(now[at], left)
        left -= first[at]
    change = {at: first.get(at, 0) - stored.get(at, 0) for at in sorted(first.keys() | stored.keys())}
    moved = [at for at, n in change.items() if n]
    rows = touched.select(range(width)).take(pa.array([row[at] for at in moved], pa.int64()))
    counts = pa.array([change[at] for at in moved], pa.int64())
    return rows.append_column(pa.field(N, pa.int64()), counts)
