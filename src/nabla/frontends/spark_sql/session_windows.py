"""GROUP BY session_window: rows whose sessions touch each other are one group.

Spark merges sessions while it runs, and the plan does not show it. Here they are merged by windows over what else the rows
are grouped by, which are maintained like any other:

    before   the last end of a session that started earlier; no session is open where it is before the start, or NULL
    begin    the start of the last session that found none open: all rows from there on belong together
    end      the last end among these
"""

from __future__ import annotations

from nabla.algebra.expressions import Column, Expr, Order, WindowCall
from nabla.algebra.nodes import Node, Window
from nabla.frontends.spark_sql.scope import Names, extended

_EARLIER = "RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL '0.000001' SECOND PRECEDING"


def merged(names: Names, node: Node, session: Column, others: tuple[str, ...]) -> tuple[Node, Column]:
    """The node with another column for the whole session that each row is in; `others` are the other keys."""
    kind = session.type.partition("start:")[2].partition(",")[0]
    labels = ("start", "end", "before", "first", "begin", "last")
    start, end, before, first, begin, last = (names.column(label, kind) for label in labels)
    in_time = (Order(start.ref),)
    opens = f"CASE WHEN {before.ref.sql} IS NULL OR {start.ref.sql} > {before.ref.sql} THEN {start.ref.sql} END"
    node = extended(node, [(c, Expr(f"{session.ref.sql}.{c.label}", kind)) for c in (start, end)])
    node = Window(node, others, (WindowCall(before, _latest(end), in_time, _EARLIER),))
    node = Window(extended(node, [(first, Expr(opens, kind))]), others, (WindowCall(begin, _latest(first), in_time),))
    node = Window(node, (*others, begin.name), (WindowCall(last, _latest(end)),))
    whole = names.column(session.label, session.type, session.nullable)
    text = f"named_struct('start', {begin.ref.sql}, 'end', {last.ref.sql})"
    return extended(node, [(whole, Expr(text, session.type, session.nullable))]), whole


def _latest(times: Column) -> Expr:
    return Expr(f"max({times.ref.sql})", times.type)
