"""Places where a test can kill the process: `NABLA_FAULT=lake.committed:2` dies at the second visit of that place.

What survives a SIGKILL there is what survives a power cut of the process; nothing is caught, flushed or undone.
"""

from __future__ import annotations

import os
import signal

_place = ""
_visits_left = 0


def arm(spec: str) -> None:
    """Die at the place `spec` names (`name`, or `name:k` for its k-th visit from now on); an empty spec disarms."""
    global _place, _visits_left
    _place, _, count = spec.partition(":")
    _visits_left = int(count or 1)


def point(name: str) -> None:
    """Mark a place. Does nothing unless this place is armed."""
    global _visits_left
    if _place != name:
        return
    _visits_left -= 1
    if _visits_left == 0:
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("NABLA_FAULT", ""))
