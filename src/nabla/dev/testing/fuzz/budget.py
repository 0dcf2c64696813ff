"""The budget of a run: a time, or a number of cases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Budget:
    """A time and a number of cases; the first to be reached ends the run. The clock starts when the budget is made."""

    seconds: float | None = None
    count: int | None = None
    begun: float = field(default_factory=time.monotonic)

    def over(self, done: int) -> bool:
        late = self.seconds is not None and time.monotonic() - self.begun >= self.seconds
        return late or (self.count is not None and done >= self.count)

    def blocks(self, first: int, length: int) -> Iterator[tuple[int, int]]:
        """Consecutive numbers in blocks (first number, count), until the budget is over."""
        done = 0
        while not self.over(done):
            count = length if self.count is None else min(length, self.count - done)
            yield first + done, count
            done += count
