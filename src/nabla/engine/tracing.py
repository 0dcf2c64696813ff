"""Steps and queries of a plan as they run, told to whoever wants to hear of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Literal, Protocol

Answerer = Literal["driver", "spark"]
"""Who answered a query: this process, with DuckDB or Arrow, or Spark."""


class Counted(Protocol):
    """Rows that were computed."""

    @property
    def count(self) -> int: ...


class StepTrace:
    """A step that runs. Whoever runs it notes the rows that it gave."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rows: Counted | None = None


class Tracer(Protocol):
    """Hears of the steps and queries of one plan. Steps may run side by side, in threads of their own."""

    def step(self, number: int, what: str) -> AbstractContextManager[StepTrace]:
        """Around a step; the first one has the number 1."""

    def query(self, by: Answerer) -> AbstractContextManager[StepTrace]:
        """Around a query, in the thread of its step."""


_STEP: ContextVar[int] = ContextVar("nabla_step", default=0)


@contextmanager
def in_step(number: int) -> Iterator[None]:
    """Queries inside belong to the step with this number."""
    token = _STEP.set(number)
    try:
        yield
    finally:
        _STEP.reset(token)


def current_step() -> int:
    """The number of the step that this thread runs, or 0."""
    return _STEP.get()


class _Quiet(AbstractContextManager[StepTrace]):
    """Nobody listens: the same objects serve all steps, and what is noted in them is not read."""

    def __init__(self) -> None:
        self._trace = StepTrace(0)

    def __enter__(self) -> StepTrace:
        return self._trace

    def __exit__(self, *_: object) -> None:
        self._trace.rows = None

    def step(self, number: int, what: str) -> AbstractContextManager[StepTrace]:
        return self

    def query(self, by: Answerer) -> AbstractContextManager[StepTrace]:
        return self


QUIET: Tracer = _Quiet()
