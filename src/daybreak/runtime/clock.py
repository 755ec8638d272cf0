"""The clock of runs in this process: it reads like the wall clock, and never goes back.

A scheduler decides by how long ago things happened. The wall clock cannot tell: an operator or NTP
may set it by an hour while rows wait. So it is read once, when the first run of a process begins;
from then on time goes by the monotonic clock. Whatever is compared with another instant of a run
is stamped by this clock: arrivals, commits, changes, figures. If the wall clock is set meanwhile,
those stamps keep to what it said before, until no run is left in the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: An instant of the wall clock is moved to this one only if they are at least so far apart: what is
#: less is the time between reading the one and the other. An estimate of arrivals bears it.
STEP_NS = 500_000_000


class Clock:
    """Nanoseconds since 1970. Any thread may read it."""

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        steady_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._steady_ns = steady_ns
        self._guard = threading.Lock()
        self._runs = 0
        self._step_ns = 0
        self._began_ns = wall_ns() - steady_ns()

    def now_ns(self) -> int:
        """Never less than before, while a run holds the clock."""
        return self._began_ns + self._steady_ns()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps the clock as it is for a run; the first of several reads the wall clock."""
        with self._guard:
            if not self._runs:
                self._began_ns, self._step_ns = self._wall_ns() - self._steady_ns(), 0
            self._runs += 1
        try:
            yield
        finally:
            with self._guard:
                self._runs -= 1

    def of_wall(self, wall_ns: int) -> int:
        """When something happened here that the wall clock has just stamped, as Spark's JVM does.

        The same for the same stamp, unless the wall clock was set meanwhile; and never tomorrow.
        """
        now_ns = self.now_ns()
        step_ns = now_ns - self._wall_ns()
        if abs(step_ns - self._step_ns) >= STEP_NS:
            self._step_ns = step_ns
        found_ns = wall_ns + self._step_ns
        return found_ns if found_ns < now_ns + STEP_NS else now_ns


#: All runs of a process share it, so that their stamps can be compared.
CLOCK = Clock()
