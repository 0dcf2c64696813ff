"""A failing plan as a Python script that shows the fault, for a report or a regression test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from typing import Any

from nabla.algebra.nodes import Node
from nabla.algebra.notation.tree import tree
from nabla.algebra.reference.interpreter import Bag
from nabla.dev.testing.random_plans import Scenario

WIDTH = 110


def plan_script(scenario: Scenario, what: str) -> str:
    database = scenario.database
    before = {table: database.old(table) for table in database.fields}
    change = {table: delta for table in database.fields if (delta := database.delta(table))}
    return "\n".join(
        [
            f'"""{_quoted(what)}',
            "",
            _quoted(tree(scenario.plan)),
            '"""',
            "",
            "import datetime",
            "from collections import Counter",
            "from decimal import Decimal",
            "",
            *_imports(scenario.plan),
            "from nabla.dev.testing.maintained import check",
            "",
            f"fields = {dict(database.fields)!r}",
            f"before = {_bags(before)}",
            f"change = {_bags(change)}",
            "",
            f"plan = {written(scenario.plan)}",
            "",
            "check(plan, Database.changed(fields, before, change), frozenset(change))",
            "",
        ]
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _imports(plan: Node) -> Iterator[str]:
    """Each class from the module that defines it."""
    defined = {"nabla.algebra.reference.interpreter": {"Database"}}
    for kind in _classes(plan):
        defined.setdefault(kind.__module__, set()).add(kind.__name__)
    for module, names in sorted(defined.items()):
        yield f"from {module} import {', '.join(sorted(names))}"


def _classes(value: Any) -> Iterator[type]:
    if isinstance(value, Enum):
        yield type(value)
    elif isinstance(value, tuple):
        for part in value:
            yield from _classes(part)
    elif hasattr(value, "__dataclass_fields__"):
        yield type(value)
        for f in fields(value):
            if getattr(value, f.name) != f.default:
                yield from _classes(getattr(value, f.name))


def _bags(bags: dict[str, Bag]) -> str:
    lines = [f"    {table!r}: {_bag(bag)}," for table, bag in bags.items()]
    return "\n".join(["{", *lines, "}"]) if lines else "{}"


def _bag(bag: Counter[Any]) -> str:
    return f"Counter({dict(bag)!r})" if bag else "Counter()"


def written(value: Any, indent: int = 0) -> str:
    """The Python expression that makes a plan; fields that have their default are left out."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return _laid_out("(", [written(part, indent + 4) for part in value], ",)" if len(value) == 1 else ")", indent)
    if not hasattr(value, "__dataclass_fields__"):
        return repr(value)
    parts: list[str] = []
    named = False
    for f in fields(value):
        part = getattr(value, f.name)
        if part == f.default:
            named = True
        else:
            text = written(part, indent + 4)
            parts.append(f"{f.name}={text}" if named else text)
    return _laid_out(f"{type(value).__name__}(", parts, ")", indent)


def _laid_out(start: str, parts: list[str], end: str, indent: int) -> str:
    line = start + ", ".join(parts) + end
    if len(line) + indent <= WIDTH and "\n" not in line:
        return line
    space = " " * (indent + 4)
    return "\n".join([start, *(f"{space}{part}," for part in parts), " " * indent + end.lstrip(",")])
