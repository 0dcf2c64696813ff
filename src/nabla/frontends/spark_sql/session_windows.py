"""GROUP BY session_window: rows with overlapping sessions are one group.

Spark merges sessions while it runs, and the plan does not show it. Here windows over the other keys merge them, which are
maintained like any windows:

    before   the last end of a session that started earlier; no session is open where it is before the start, or NULL
    begin    the start of the last session that found none open: all rows from there on belong together
    end      the last end among these
"""

from __future__ import annotations

from nabla.algebra.build import any_of, compare, is_null, named_struct, text, when
from nabla.algebra.calls import UNBOUNDED_PRECEDING, Bound, Call, Frame, Order, WindowCall
from nabla.algebra.expressions import Apply, Column, Expr, Literal
from nabla.algebra.nodes import Node, Window
from nabla.algebra.normalize import cast
from nabla.frontends.spark_sql.scope import ColumnNames, with_columns

_MICROSECOND = Literal("INTERVAL '0.000001' SECOND", "interval second")
_EARLIER = Frame("range", UNBOUNDED_PRECEDING, Bound("preceding", _MICROSECOND))


def merge_sessions(names: ColumnNames, node: Node, session: Column, others: tuple[str, ...]) -> tuple[Node, Column]:
    """The node with a column for the whole session of each row; `others` are the other keys."""
    kind = session.type.partition("start:")[2].partition(",")[0]
    labels = ("start", "end", "before", "first", "begin", "last")
    start, end, before, first, begin, last = (names.column(label, kind) for label in labels)
    in_time = (Order(start.ref),)
    opens = when(any_of((is_null(before.ref), compare(start.ref, ">", before.ref))), start.ref)
    node = with_columns(node, [(c, _field(session, c)) for c in (start, end)])
    node = Window(node, others, (WindowCall(_latest(before, end), in_time, _EARLIER),))
    node = Window(with_columns(node, [(first, opens)]), others, (WindowCall(_latest(begin, first), in_time),))
    node = Window(node, (*others, begin.name), (WindowCall(_latest(last, end)),))
    whole = names.column(session.label, session.type, session.nullable)
    both = cast(named_struct((("start", begin.ref), ("end", last.ref))), session.type)
    return with_columns(node, [(whole, both)]), whole


def _latest(column: Column, times: Column) -> Call:
    return Call(column, "max", (times.ref,))


def _field(session: Column, column: Column) -> Expr:
    return Apply("GetStructField", (session.ref, text(column.label)), column.type)
