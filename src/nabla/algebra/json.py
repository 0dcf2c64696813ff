"""Plans as JSON: definitions are stored as algebra, so that any process can refresh any view."""

from __future__ import annotations

import re
from dataclasses import fields
from enum import Enum
from typing import Any

from nabla.algebra import expressions, nodes
from nabla.algebra.nodes import At, Node

_CLASSES: dict[str, type] = {
    name: value
    for module in (expressions, nodes)
    for name, value in vars(module).items()
    if isinstance(value, type) and hasattr(value, "__dataclass_fields__")
}


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


def from_data(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(from_data(part) for part in data)
    if not isinstance(data, dict):
        return data
    if data["_"] == "At":
        return At(data["at"])
    values = {name: from_data(part) for name, part in data.items() if name != "_"}
    if data["_"] == "Opaque" and "place" not in values:
        values |= _split_place(values["why"])
    return _CLASSES[data["_"]](**values)


def _split_place(why: str) -> dict[str, str]:
    """Older lakes have the place of an operator behind its name: `PIVOT (line 3)`."""
    match = re.fullmatch(r"(?P<why>.*) \((?P<place>line \d+[^()]*)\)", why, re.DOTALL)
    return match.groupdict() if match else {}


def load_plan(data: Any) -> Node:
    node = from_data(data)
    assert isinstance(node, Node)
    return node
