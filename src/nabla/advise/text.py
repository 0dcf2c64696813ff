"""A candidate as Spark SQL that a user could have written."""

from __future__ import annotations

import re

from nabla.advise.candidates import Candidate
from nabla.algebra.expressions import quote

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def text_of(candidate: Candidate) -> str:
    """The SELECT that makes the candidate a view."""
    labels = list(candidate.labels)
    keys = keys_of(candidate)
    measures = [
        f"{m.function}({'*' if m.argument is None else m.argument.spell(_name)})" for m in candidate.ordered_measures
    ]
    shown = [
        text if text.rsplit(".", 1)[-1] == _name(label) else f"{text} AS {_name(label)}"
        for text, label in zip([*keys, *measures], labels, strict=True)
    ]
    lines = [f"SELECT {', '.join(shown)}", source_of(candidate)]
    if keys:
        lines.append(f"GROUP BY {', '.join(keys)}")
    return "\n".join(lines)


def source_of(candidate: Candidate) -> str:
    """The rows that the candidate groups: FROM and WHERE."""
    lines = _from(candidate)
    if candidate.kept:
        lines.append(f"WHERE {' AND '.join(sorted(e.spell(_name) for e in candidate.kept))}")
    return "\n".join(lines)


def keys_of(candidate: Candidate) -> list[str]:
    """The expressions that the candidate groups by."""
    return [key.spell(_name) for key in candidate.ordered_keys]


def _from(candidate: Candidate) -> list[str]:
    """The tables, each after one that a condition connects it with."""
    waiting = sorted(candidate.tables, key=lambda table: (-_conditions(candidate, table), table))
    joins = sorted(candidate.joins, key=lambda e: e.sql)
    there = [waiting.pop(0)]
    lines = [f"FROM {_name(there[0])}"]
    while waiting:
        table = next((t for t in waiting if any(_links(e, there, t) for e in joins)), waiting[0])
        waiting.remove(table)
        there.append(table)
        on = [e for e in joins if {column.rsplit(".", 1)[0] for column in e.columns} <= set(there)]
        joins = [e for e in joins if e not in on]
        text = " AND ".join(e.spell(_name) for e in on)
        lines.append(f"JOIN {_name(table)} ON {text}" if on else f"CROSS JOIN {_name(table)}")
    return lines


def _conditions(candidate: Candidate, table: str) -> int:
    return sum(any(column.rsplit(".", 1)[0] == table for column in e.columns) for e in candidate.joins)


def _links(condition: object, there: list[str], table: str) -> bool:
    tables = {column.rsplit(".", 1)[0] for column in getattr(condition, "columns", ())}
    return table in tables and tables <= {*there, table}


def _name(name: str) -> str:
    """A name, or a field of a table, quoted where SQL demands it."""
    return ".".join(part if _PLAIN.fullmatch(part) else quote(part) for part in name.rsplit(".", 1))
