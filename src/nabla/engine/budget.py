"""The time that the maintenance of a view may take before it is given up, and a watch that interrupts what runs too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nabla.planner.steps import Mode, Plan

PATIENCE, PATIENCE_WITH_MODELS = 1.5, 3.0
"""Maintaining may take so many times what recomputing took, or what it is only modelled to take."""
LEAST_SECONDS = 2.0
"""Below that nothing is given up: a disturbance of the machine takes as long."""
AGAIN = 0.2
"""Seconds after which whatever still runs is interrupted again: it may have begun since."""


class OverBudget(Exception):
    """The budget is used up."""


class Budget:
    """A number of seconds from its making on, or no limit. As a context, it watches: when the time is over, it calls whatever
    interrupts the work under way, until the context ends. Several threads may work on one budget."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._begun = time.monotonic()
        self._interrupts: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    @property
    def is_over(self) -> bool:
        return self.seconds is not None and self.elapsed > self.seconds

    def check(self) -> None:
        """Raise OverBudget once the time is over."""
        if self.is_over:
            raise OverBudget

    @contextmanager
    def interrupted_by(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Work that can be interrupted. Errors that it raises when the time is over are OverBudget."""
        self.check()
        if self.seconds is None:
            yield
            return
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            yield
        except Exception as error:
            if self.is_over:
                raise OverBudget from error
            raise
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    def __enter__(self) -> Budget:
        if self.seconds is not None:
            threading.Thread(target=self._watch, name="nabla budget", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _watch(self) -> None:
        assert self.seconds is not None
        wait = max(0.0, self.seconds - self.elapsed) + AGAIN / 10
        while not self._ended.wait(wait):
            with self._lock:
                for interrupt in self._interrupts:
                    interrupt()
            wait = AGAIN


UNLIMITED = Budget()


def budget_of(plan: Plan, mode: Mode) -> Budget:
    """The time that a plan may take: in mode `auto`, some multiple of the estimate for recomputing the view."""
    if mode != "auto" or plan.mode != "incremental" or plan.full is None:
        return Budget()
    patience = PATIENCE if plan.full.measured else PATIENCE_WITH_MODELS
    return Budget(max(LEAST_SECONDS, patience * plan.full.seconds))
