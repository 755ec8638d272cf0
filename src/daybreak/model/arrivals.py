"""How tuples arrive on a stream, declared as data; `daybreak.simulation.arrivals` draws them.

One process is a small pipeline: draw instants at a mean rate (Poisson, periodic or a recorded
trace), stretch them through phases of other rates, gather them into bursts, deliver them in
batches. Each stage is left out by default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from daybreak.model.errors import ConfigError

Process = Literal["poisson", "periodic", "trace"]
PROCESSES: tuple[str, ...] = get_args(Process)


@dataclass(frozen=True, slots=True)
class Phase:
    """For ``tuples`` tuples (or ``duration_s`` seconds) the rate is ``factor`` times the mean."""

    #: The rate in this phase, in multiples of the mean rate.
    factor: float
    #: How long the phase lasts; or
    duration_s: float | None = None
    #: after how many tuples it ends.
    tuples: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise ConfigError("phase", f"factor {self.factor}", "give a factor above 0")
        if (self.duration_s is None) == (self.tuples is None):
            raise ConfigError("phase", "needs an end", "give either duration_s or tuples")
        length = self.duration_s if self.duration_s is not None else self.tuples
        if length is None or not (math.isfinite(length) and length > 0):
            raise ConfigError("phase", f"length {length}", "give a length above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """The arrival process of one stream."""

    #: Independent arrivals, evenly spaced ones, or those of a recorded trace.
    process: Process = "poisson"
    #: Mean rate; for a trace left out, or given to rescale the trace to it.
    rate_per_s: float | None = None
    #: Tuples that arrive together, with the first of them; the mean rate stays.
    burst: int = 1
    #: Tuples are handed over together every so often (batched delivery).
    batch_s: float | None = None
    #: Rates that change over time; the list repeats.
    phases: tuple[Phase, ...] = ()
    #: A text file, gzipped or not, whose first column is the arrival instant in seconds.
    trace: str | None = None
    #: Periodic only: the instant of the first tuple, as a fraction of the period.
    offset: float = 0.0

    def __post_init__(self) -> None:
        def refuse(finding: str, remedy: str) -> ConfigError:
            return ConfigError("arrivals", finding, remedy)

        if self.process not in PROCESSES:
            raise refuse(f"process {self.process!r}", f"choose from {', '.join(PROCESSES)}")
        if (self.process == "trace") != (self.trace is not None):
            raise refuse("process and trace disagree", 'trace = FILE goes with process = "trace"')
        if self.rate_per_s is None and self.process != "trace":
            raise refuse("no rate_per_s", "give the tuples that arrive per second")
        if self.rate_per_s is not None and not 0 < self.rate_per_s <= 1e9:
            raise refuse(f"rate_per_s {self.rate_per_s}", "give a rate in (0, 1e9]")
        if not 1 <= self.burst <= 1_000_000:
            raise refuse(f"burst {self.burst}", "a burst has 1 to 1 000 000 tuples")
        if self.batch_s is not None and not 0 < self.batch_s <= 1e6:
            raise refuse(f"batch_s {self.batch_s}", "give a period in (0, 1e6] s, or leave it out")
        if not 0 <= self.offset < 1:
            raise refuse(f"offset {self.offset}", "give a fraction of the period in [0, 1)")
