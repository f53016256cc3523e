"""How many processors there are for us."""

from __future__ import annotations

import os


def n_usable_cores() -> int:
    """Those that this process may run on, which `taskset` or a container can make fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
