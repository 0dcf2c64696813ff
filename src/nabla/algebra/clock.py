"""The clock as a relation that changes: `current_date()` and similar functions in a filter.

A view outlives the moment of its creation. Its text therefore reads the clock by tokens: «current_date()» is the moment of
the refresh, «current_date() before» the moment that the view reflects. When the value has moved, only rows between the two
boundaries are inserted and deleted:

    d(σₚ S) = σₚ₀ dS + σ(p₁ ∧ ¬p₀) S₁ − σ(p₀ ∧ ¬p₁) S₁
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from zoneinfo import ZoneInfo

from nabla._cached import cached_property
from nabla.algebra.expressions import Clock, Expr, Foreign, Literal
from nabla.algebra.names import inner_table
from nabla.algebra.nodes import Filter, Node

CLOCK = inner_table("clock")
"""The name under which the clock is among the relations that changed."""

# Literals and quoted names are matched so that a token inside them is not taken for one.
_TOKEN = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)+`|«(?P<function>\w+\(\))(?P<before> before)?»"""
)


def functions(expr: Expr) -> frozenset[str]:
    """The functions of the clock that an expression reads."""
    return frozenset(part.function for part in expr.walk() if isinstance(part, Clock))


def readable(sql: str) -> str:
    """SQL for people: functions of the clock are called, and their values before are columns with telling names."""
    return _TOKEN.sub(lambda m: (f"`{m['function']} before`" if m["before"] else m["function"]) or m[0], sql)


def clock_conjuncts(conjuncts: Iterable[Expr]) -> tuple[Expr, ...]:
    """The conjuncts that read the clock."""
    return tuple(c for c in conjuncts if functions(c))


def reads_clock(node: Node) -> bool:
    return isinstance(node, Filter) and bool(clock_conjuncts(node.conjuncts))


def before(e: Expr) -> Expr:
    """The expression as it was at the moment that the view reflects."""
    return e.rewrite(lambda part: replace(part, before=True) if isinstance(part, Clock) else part)


@dataclass(frozen=True)
class Instant:
    """A moment, and the time zone that makes it a date."""

    micros: int
    zone: str

    @classmethod
    def now(cls, zone: str) -> Instant:
        return cls(time.time_ns() // 1000, zone)

    @cached_property
    def _local(self) -> datetime.datetime:
        utc = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=self.micros)
        return utc.astimezone(ZoneInfo(self.zone))

    def value(self, function: str) -> Expr:
        """The value that a function of the clock had."""
        match function:
            case "current_date()":
                return Literal(str(self._local.date()), "date")
            case "current_timestamp()":
                return Foreign(f"timestamp_micros({self.micros}L)", (), "timestamp", nullable=False)
            case "localtimestamp()":
                return Literal(str(self._local.replace(tzinfo=None)), "timestamp_ntz")
        raise LookupError(f"the clock has no {function}")

    def to_json(self) -> dict[str, Any]:
        return {"micros": self.micros, "zone": self.zone}


def stored_instant(json: Mapping[str, Any] | None) -> Instant | None:
    return Instant(json["micros"], json["zone"]) if json else None


@dataclass(frozen=True)
class Moments:
    """The moment that a view reflects and the one it is brought to."""

    before: Instant
    after: Instant

    def moved(self, used: Iterable[str]) -> bool:
        """Whether one of the functions has another value now than the view reflects."""
        return any(self.before.value(f) != self.after.value(f) for f in used)

    def _value(self, function: str, before: bool) -> Expr:
        return (self.before if before else self.after).value(function)

    def bind(self, expr: Expr) -> Expr:
        """The expression with values for readings of the clock."""
        return expr.rewrite(lambda part: self._value(part.function, part.before) if isinstance(part, Clock) else part)

    def bound(self, text: str) -> str:
        """The text with values for readings of the clock."""
        if "«" not in text:
            return text

        def value(match: re.Match[str]) -> str:
            return self._value(match["function"], bool(match["before"])).sql if match["function"] else match[0]

        return _TOKEN.sub(value, text)


EPOCH = Moments(Instant(0, "UTC"), Instant(0, "UTC"))
"""The moments of a query that does not read the clock."""
