"""Values that are computed once for an object: properties, and what others make of it.

Up to Python 3.11 `functools.cached_property` computes under a lock that all objects of a class share. Views are refreshed
side by side, and where a property of a plan asks another one of its parts, which has a lock of its own, two threads can
wait for each other for ever. Later Pythons have no such lock, and neither has this: two threads may both compute, and
both get what the first of them found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")
V = TypeVar("V")

if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251
else:

    class cached_property:
        """The value replaces the property in the object's own dictionary, so it is asked no more."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self.compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.compute(instance))


def once(owner: T, make: Callable[[T], V]) -> V:
    """What a function makes of an object that never changes: computed once, and kept with the object as long as it lives."""
    kept = owner.__dict__
    name = f"{make.__module__}.{make.__qualname__}"
    if name not in kept:
        kept.setdefault(name, make(owner))
    return kept[name]  # type: ignore[no-any-return]
