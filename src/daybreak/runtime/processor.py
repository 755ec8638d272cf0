"""How busy the cores of this machine are."""

from __future__ import annotations

import os
from pathlib import Path

from daybreak.policies.base import ProcessorUse

_STAT = Path("/proc/stat")


def processor_use(stat: Path = _STAT) -> ProcessorUse | None:
    """Since the machine started; None where there is no /proc."""
    try:
        with stat.open(encoding="ascii") as lines:
            total, cores = next(lines), sum(line.startswith("cpu") for line in lines)
    except OSError:
        return None
    # cpu user nice system idle iowait irq softirq steal guest guest_nice; guests count as user.
    ticks = [int(n) for n in total.split()[1:9]]
    idle = ticks[3] + ticks[4]
    tick_ns = 10**9 // os.sysconf("SC_CLK_TCK")
    return ProcessorUse(cores, (sum(ticks) - idle) * tick_ns, idle * tick_ns)
