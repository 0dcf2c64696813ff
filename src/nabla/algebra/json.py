"""Plans as JSON: definitions are stored as algebra, so that any process can refresh any view.

Version 0.1 stored expressions as Spark SQL text (`{"_": "Expr", "sql": …}`), a window function as the text of its call, and
its frame as text. Such texts are read into trees, with the types of the columns that the operator reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

from nabla.algebra import calls, expressions, nodes
from nabla.algebra.calls import CURRENT_ROW, Bound, Frame, WindowCall
from nabla.algebra.expressions import Column
from nabla.algebra.nodes import At, Node
from nabla.algebra.parse import Types, read, read_call

_CLASSES: dict[str, type] = {
    name: value
    for module in (expressions, calls, nodes)
    for name, value in vars(module).items()
    if isinstance(value, type) and hasattr(value, "__dataclass_fields__")
}
_IGNORING_NULLS = {"first({0}, true)", "last({0}, true)"}
"""The form in which version 0.1 wrote `first(x) IGNORE NULLS`."""
_FRAME = re.compile(r"(?P<unit>ROWS|RANGE) BETWEEN (?P<lower>.+) AND (?P<upper>.+)", re.IGNORECASE)


def to_data(value: Any) -> Any:
    """Plain lists, dicts and scalars; fields that have their default are left out."""
    if hasattr(value, "__dataclass_fields__"):
        kept = {f.name: getattr(value, f.name) for f in fields(value) if getattr(value, f.name) != f.default}
        return {"_": type(value).__name__, **{name: to_data(part) for name, part in kept.items()}}
    if isinstance(value, Enum):
        return {"_": "At", "at": value.value}
    if isinstance(value, tuple):
        return [to_data(part) for part in value]
    return value


def _split_place(why: str) -> dict[str, str]:
    """The name and the place of an operator, which version 0.1 wrote as one text: `PIVOT (line 3)`."""
    match = re.fullmatch(r"(?P<why>.*) \((?P<place>line \d+[^()]*)\)", why, re.DOTALL)
    return match.groupdict() if match else {}


def load_plan(data: Any) -> Node:
    node = _load(data, {})
    assert isinstance(node, Node)
    return node


def _load(data: Any, columns: Types) -> Any:
    """Load a value that `to_data` wrote; `columns` are those that an operator's expressions read."""
    if isinstance(data, list):
        return tuple(_load(part, columns) for part in data)
    if not isinstance(data, dict):
        return data
    match data["_"]:
        case "At":
            return At(data["at"])
        case "Expr":
            known = data["type"], data.get("nullable", True), data.get("deterministic", True)
            return read(data["sql"], columns, *known)
        case "WindowCall" if data["call"]["_"] == "Expr":
            return _window_call(data, columns)
        case "Call" if data.get("template") in _IGNORING_NULLS:
            data = {**data, "template": "", "ignore_nulls": True}
        case "Opaque" if "place" not in data:
            data = {**data, **_split_place(data["why"])}
    kind = _CLASSES[data["_"]]
    parts = {name: part for name, part in data.items() if name != "_"}
    if not issubclass(kind, Node):
        return kind(**{name: _load(part, columns) for name, part in parts.items()})
    inputs = {name: _load(part, {}) for name, part in parts.items() if _is_input(part)}
    read_here = _columns_of(inputs)
    return kind(**{name: inputs[name] if name in inputs else _load(part, read_here) for name, part in parts.items()})


def _is_input(part: Any) -> bool:
    """Whether a field of an operator holds the operators below it."""
    some = part[0] if isinstance(part, list) and part else part
    return isinstance(some, dict) and issubclass(_CLASSES.get(some["_"], object), Node)


def _columns_of(inputs: Mapping[str, Any]) -> Types:
    below = [node for value in inputs.values() for node in (value if isinstance(value, tuple) else (value,))]
    return {c.name: (c.type, c.nullable) for node in below for c in node.columns}


def _window_call(data: Mapping[str, Any], columns: Types) -> WindowCall:
    column = _load(data["column"], columns)
    assert isinstance(column, Column)
    call = read_call(data["call"]["sql"], column, columns)
    return WindowCall(call, _load(data.get("order", []), columns), _frame(data.get("frame", "")))


def _frame(text: str) -> Frame | None:
    """The frame of a text such as `ROWS BETWEEN 1 PRECEDING AND CURRENT ROW`; None of an empty text."""
    if not text:
        return None
    match = _FRAME.fullmatch(text)
    assert match is not None, f"{text} is no frame"
    return Frame("rows" if match["unit"].upper() == "ROWS" else "range", _bound(match["lower"]), _bound(match["upper"]))


def _bound(text: str) -> Bound:
    distance, _, side = text.rpartition(" ")
    if side.upper() == "ROW":
        return CURRENT_ROW
    return Bound(
        "preceding" if side.upper() == "PRECEDING" else "following",
        None if distance.upper() == "UNBOUNDED" else read(distance, {}),
    )
