"""Nabla: incremental materialized views on Apache Spark."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nabla.errors import Conflict, Mismatch, NablaError, NotIncremental

if TYPE_CHECKING:
    from nabla.lake import Lake
    from nabla.lake import open_lake as open
    from nabla.nested.language import nest, nested
    from nabla.violations import Violated

__all__ = ["Conflict", "Lake", "Mismatch", "NablaError", "NotIncremental", "Violated", "nest", "nested", "open"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Spark is imported with the first lake, not with the package: `nabla --help` should be instant."""
    if name in ("Lake", "open"):
        from nabla import lake

        return lake.Lake if name == "Lake" else lake.open_lake
    if name == "Violated":
        from nabla.violations import Violated

        return Violated
    if name in ("nest", "nested"):
        package = import_module("nabla.nested")
        return package if name == "nested" else package.nest
    raise AttributeError(f"module 'nabla' has no attribute {name!r}")
