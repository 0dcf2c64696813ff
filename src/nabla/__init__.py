"""Nabla: incremental materialized views on Apache Spark."""

from typing import TYPE_CHECKING, Any

from nabla.errors import Conflict, Mismatch, NablaError, NotIncremental

if TYPE_CHECKING:
    from nabla.frontends.nested.language import nest, nested
    from nabla.lake.constraints.violations import Violated
    from nabla.lake.facade import Lake
    from nabla.lake.open import open_lake as open

__all__ = ["Conflict", "Lake", "Mismatch", "NablaError", "NotIncremental", "Violated", "nest", "nested", "open"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Spark is imported with the first lake, not with the package: `nabla --help` should be instant."""
    if name == "open":
        from nabla.lake.open import open_lake

        return open_lake
    if name == "Lake":
        from nabla.lake.facade import Lake

        return Lake
    if name == "Violated":
        from nabla.lake.constraints.violations import Violated

        return Violated
    if name in ("nest", "nested"):
        from nabla.frontends.nested import language

        return getattr(language, name)
    raise AttributeError(f"module 'nabla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
