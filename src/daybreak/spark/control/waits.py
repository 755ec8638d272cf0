"""What a query waits for at this moment, asked between two decisions."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from daybreak.model.errors import ConfigError, suggestion
from daybreak.runtime.clock import CLOCK
from daybreak.spark.loop.driver import Driver
from daybreak.spark.upkeep.record import Figures, RunRecord

#: What was noted is handed to the record for the asker, but no more often than this: parts of a
#: record are files, and an asker that repeats its question must not make one each time. An asker
#: waits for it at most; with half of it there are twice as many files.
LATELY_S = 0.2
#: How long an asker waits for the loop, and for the disk; then it reads what was written before.
PATIENCE_S = 30.0
WRITTEN_S = 3.0
LOOK_S = 0.05


@dataclass(frozen=True)
class WaitReader:
    """Answers ``daybreak why`` in the process of the run. Any thread may use it."""

    driver: Driver
    figures: Figures
    record: RunRecord

    def now(self, query: str) -> dict[str, Any]:
        """How the query stands; before it returns, what was noted so far is in the record."""
        names = {q.name: b for b, q in enumerate(self.figures.view.network.queries)}
        if query not in names:
            raise ConfigError(f"query {query!r}", "is not declared", suggestion(query, names))
        found: dict[str, Any] = {}
        taken = False

        def look() -> None:
            nonlocal taken
            if self.figures.waits is not None:
                found.update(self.figures.waits.now(names[query], CLOCK.now_ns()))
            taken = self.record.take_if_older(LATELY_S)

        self.driver.ask(look).result(timeout=PATIENCE_S)
        if not taken:
            # Answers may have been noted since. If it is still too early after this pause, then
            # another asker has had them taken meanwhile.
            time.sleep(LATELY_S)
            self.driver.ask(look).result(timeout=PATIENCE_S)
        end_s = time.monotonic() + WRITTEN_S
        while not self.record.is_written and time.monotonic() < end_s:
            time.sleep(LOOK_S)
        return found
