"""Properties that are computed once, by threads side by side."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from nabla._cached import cached_property


class Part:
    def __init__(self, meet: threading.Barrier, below: Part | None = None) -> None:
        self.meet = meet
        self.below = below
        self.asked = 0

    @cached_property
    def one(self) -> object:
        """One."""
        self.asked += 1
        self.meet.wait(5)
        return self.below.other if self.below else object()

    @cached_property
    def other(self) -> object:
        self.meet.wait(5)
        return self.below.one if self.below else object()


def test_is_computed_once() -> None:
    part = Part(threading.Barrier(1))
    assert part.one is part.one
    assert part.asked == 1
    assert Part.one.__doc__ == "One."


def test_two_threads_that_ask_crosswise_do_not_wait_for_each_other() -> None:
    meet = threading.Barrier(2)
    first, second = Part(meet, Part(meet)), Part(meet, Part(meet))
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(lambda: first.one), pool.submit(lambda: second.other)]
        values = [future.result(10) for future in asked]
    assert values == [first.one, second.other]


def test_threads_get_the_same_value() -> None:
    part = Part(threading.Barrier(2))
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: part.one, range(2))
    assert one is other is part.one
    assert part.asked == 2
