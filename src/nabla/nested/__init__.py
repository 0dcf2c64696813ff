"""Nested relations in partitioned normal form: tables with `array<struct>` columns, and views over them.

The package is also the function that begins a nested view: `nabla.nested("stud").select(…)`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from nabla.nested.language import Nested, nest, nested

__all__ = ["Nested", "nest", "nested"]


class _Package(ModuleType):
    def __call__(self, table: str | Nested) -> Nested:
        return nested(table)


sys.modules[__name__].__class__ = _Package
