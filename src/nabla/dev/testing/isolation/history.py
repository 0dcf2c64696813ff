"""What transactions did, as those who ran them saw it.

Every object is a list to whose end transactions append, or a set to which they add. All values are different, so that a
read tells who wrote what it saw, and a read of a list tells the order of the writers, too.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

Kind = Literal["append", "add", "read list", "read set"]
Outcome = Literal["committed", "aborted", "unknown"]


@dataclass(frozen=True)
class Operation:
    """A write of one value, or a read with the values that it saw: in order for a list, sorted for a set."""

    kind: Kind
    object: str
    values: tuple[int, ...]

    @property
    def is_read(self) -> bool:
        return self.kind in ("read list", "read set")

    def __str__(self) -> str:
        values = " ".join(map(str, self.values))
        return f"{self.object}: [{values}]" if self.is_read else f"{self.object} += {values}"


@dataclass(frozen=True)
class Transaction:
    """The operations of a transaction in order, how it ended, and when it began and ended (in seconds of one clock).

    An outcome is unknown if the process died or an error does not say whether the commit was made.
    """

    name: str
    operations: tuple[Operation, ...]
    outcome: Outcome = "committed"
    began: float = 0.0
    ended: float = 0.0

    @property
    def reads(self) -> tuple[Operation, ...]:
        return tuple(operation for operation in self.operations if operation.is_read)

    @property
    def writes(self) -> tuple[Operation, ...]:
        return tuple(operation for operation in self.operations if not operation.is_read)

    def to_json(self) -> str:
        """One line of a file of histories."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The inverse of `to_json`."""
        said: dict[str, Any] = json.loads(line)
        operations = (Operation(o["kind"], o["object"], tuple(o["values"])) for o in said.pop("operations"))
        return cls(operations=tuple(operations), **said)

    def __str__(self) -> str:
        return f"{self.name} ({self.outcome}): {'; '.join(map(str, self.operations))}"


def append(object: str, value: int) -> Operation:
    return Operation("append", object, (value,))


def add(object: str, value: int) -> Operation:
    return Operation("add", object, (value,))


def read_list(object: str, *values: int) -> Operation:
    return Operation("read list", object, values)


def read_set(object: str, *values: int) -> Operation:
    return Operation("read set", object, tuple(sorted(values)))
