"""A refresh that is killed at a point, for a process of its own."""

from __future__ import annotations


def refresh_until(path: str, point: str) -> None:
    """Refresh a lake without Spark. The process dies when it gets to the point."""
    import nabla
    from nabla.storage import machine

    lake = nabla.open(path)
    machine.arm(point)
    lake.refresh(mode="incremental")
