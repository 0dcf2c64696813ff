"""`nabla.watch.Watch`: the loop of `nabla watch`, for programs that keep a lake fresh themselves."""

from __future__ import annotations

from nabla.lake.refresh.watch import Watch

__all__ = ["Watch"]
