"""Keeps a mirror fresh: visits what is due, learns change rates, replans.

Pure of clocks: every method gets the time, so the same keeper runs in real time and, in tests, in
made-up time against real servers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from daybreak.freshness.estimate import RatePrior, estimate_rates, exploration_floor
from daybreak.freshness.keep.config import KeepConfig
from daybreak.freshness.keep.mirror_source import Fetched, MirrorSource, SourceError
from daybreak.freshness.keep.store import Row, Store
from daybreak.freshness.mirror import Floats, Mirror
from daybreak.freshness.mirror_files import read_table
from daybreak.freshness.refresh_limits import RefreshLimits, floor_for_freshness
from daybreak.freshness.refresh_planner import RefreshPlan, plan
from daybreak.model.errors import ConfigError
from daybreak.model.redaction import redacted, shown_url

log = logging.getLogger(__name__)

#: The plan uses this share of the bandwidth; the rest is for retries and for catching up.
PLANNED_SHARE = 0.95
#: How many visits of an object its rate is estimated from.
REMEMBERED_VISITS = 200
#: After a failure the wait doubles, from this share of the object's interval on.
_FIRST_RETRY = 1 / 16


@dataclass(frozen=True, slots=True)
class Visit:
    """A visit under way: what is visited, and since when."""

    row: Row
    at_s: float


class MirrorKeeper:
    """One mirror being kept. Starting again on the same store continues where it stopped."""

    def __init__(
        self, config: KeepConfig, store: Store, sources: Mapping[str, MirrorSource]
    ) -> None:
        self.params = config.mirror
        self.store = store
        self.sources = sources
        self.access = _read_access(config)
        self.plan: RefreshPlan | None = None
        #: How the last step's visit ended; empty if it made none.
        self.outcome = ""

    def step(self, now_s: float) -> float:
        """Makes at most one visit, start to end; when to call again, at the latest.

        `Fetchers` makes visits of several hosts at once out of the same three parts.
        """
        self.outcome = ""
        visit = self.next_visit(now_s)
        if visit is None:
            return self.wake_s(now_s)
        self.outcome = self.record(visit, self.fetch(visit), now_s)
        return now_s

    def next_visit(self, now_s: float, busy: Collection[str] = ()) -> Visit | None:
        """The visit that is due first, to a host that is not ``busy``; its bandwidth is spent."""
        if now_s >= (self.store.fact("replan_s") or 0.0) or self.plan is None:
            self.replan(now_s)
        paid_s = self.store.fact("paid_s") or 0.0
        row = self.store.due(now_s, busy) if paid_s <= now_s else None
        if row is None:
            return None
        with self.store.transaction():
            # Bandwidth is paid one visit after the other: after a pause, what is overdue goes
            # out at the usual pace, not all at once.
            gap_s = self.params.period_s / self.params.bandwidth
            self.store.set_fact("paid_s", max(paid_s, now_s) + gap_s)
            self.store.occupy(row.host, now_s + self.params.host_gap_s, "asked just now")
        return Visit(row, now_s)

    def fetch(self, visit: Visit) -> Fetched | SourceError:
        """What the source answers. Touches no state of the keeper: any thread may call it."""
        row = visit.row
        try:
            return self.sources[row.source].fetch(row.name, row.version)
        except SourceError as error:
            return error
        except Exception as error:
            # Whatever one object provokes, the others are still kept.
            failure = SourceError(f"unexpected error ({type(error).__name__}: {error})")
            log.warning("source %s: %s", row.source, failure.reason)
            return failure

    def record(self, visit: Visit, found: Fetched | SourceError, now_s: float) -> str:
        """Writes down how a visit ended; a line that describes it."""
        row = visit.row
        period_s = self.params.period_s
        interval_s = period_s / row.frequency if row.frequency else period_s
        shown = shown_url(row.name, keep_query=True)
        with self.store.transaction():
            if isinstance(found, SourceError):
                return f"{shown}: {self._fail(row, found, now_s, interval_s)}"
            changed = found.content is not None
            due_s = visit.at_s + interval_s
            self.store.record_visit(row, visit.at_s, found.version, found.content, changed, due_s)
        return f"{shown}: {'changed' if changed else 'unchanged'}"

    def close(self) -> None:
        """Ends the keeper's hold on its store and sources."""
        for source in self.sources.values():
            source.close()
        self.store.close()

    def replan(self, now_s: float) -> None:
        """Lists the sources' objects, estimates their rates and spreads the bandwidth."""
        for name, source in self.sources.items():
            try:
                listed = [(item.name, item.host) for item in source.objects()]
            except Exception as error:
                # Its objects stay as last listed; the next plan asks again.
                log.warning("source %s could not be listed: %s", name, redacted(str(error)))
                continue
            self.store.list_objects(name, listed)
        rows = self.store.rows()
        with self.store.transaction():
            self.store.forget_visits(REMEMBERED_VISITS)
            self.store.set_fact("replan_s", now_s + self.params.replan_s)
            if rows:
                self._plan(rows, now_s)

    def _plan(self, rows: list[Row], now_s: float) -> None:
        params = self.params
        rows = [replace(row, access=self.access.get(row.name, 1.0)) for row in rows]
        visits = self.store.visits(params.period_s)
        rates = estimate_rates(visits, len(rows), RatePrior(params.prior_rate, params.prior_weight))
        visited = np.bincount(visits.item, minlength=len(rows))
        mirror = Mirror.of(rates, [row.access for row in rows], place="access")
        bandwidth = params.bandwidth * PLANNED_SHARE
        floor = exploration_floor(visited, params.explore_periods, params.trusted_visits)
        # Learning must not eat more than a third of the bandwidth.
        floor *= min(1.0, bandwidth / 3 / max(float(floor.sum()), 1e-300))
        if params.least_freshness:
            floor = np.maximum(floor, floor_for_freshness(mirror, params.least_freshness))
        made = plan(
            mirror, bandwidth, RefreshLimits(floor=floor), start=self.store.fact("multiplier")
        )
        if made.multiplier > 0:
            self.store.set_fact("multiplier", made.multiplier)
        self.plan = made
        due_s = self._due(rows, made.frequency, now_s)
        why = [
            self._why(row, rate, f, low)
            for row, rate, f, low in zip(rows, rates, made.frequency, floor, strict=True)
        ]
        self.store.save_plan(rows, rates, made.frequency, due_s, why)

    def _due(self, rows: list[Row], frequency: Floats, now_s: float) -> list[float | None]:
        """Visited objects keep their rhythm; new ones come one by one, the most read first."""
        gap_s = self.params.period_s / self.params.bandwidth
        order = sorted((i for i, r in enumerate(rows) if r.visited_s is None),
                       key=lambda i: -rows[i].access)  # fmt: skip
        place = {i: k for k, i in enumerate(order)}
        due: list[float | None] = []
        for i, (row, f) in enumerate(zip(rows, frequency, strict=True)):
            if row.failures and row.due_s is not None:
                due.append(row.due_s)
            elif row.visited_s is None:
                due.append(row.due_s if row.due_s is not None else now_s + place[i] * gap_s)
            elif f > 0:
                due.append(row.visited_s + self.params.period_s / f)
            else:
                due.append(None)
        return due

    def _why(self, row: Row, rate: float, frequency: float, floor: float) -> str:
        if row.failures:
            return row.why
        if row.visited_s is None:
            return "new: no copy yet"
        known = f"changes about {rate:.3g} times a period"
        if frequency == 0:
            return f"never: {known}, and its readers gain more elsewhere"
        every = f"every {self.params.period_s / frequency:.4g} s"
        if floor > 0 and frequency <= floor * (1 + 1e-9):
            return f"{every}: {known}; kept at its least rate, to learn or by least_freshness"
        return f"{every}: {known}, read with weight {row.access:.3g}"

    def _fail(self, row: Row, failure: SourceError, now_s: float, interval_s: float) -> str:
        # From some point on the wait is the whole interval; larger powers would overflow.
        wait_s = interval_s * min(1.0, _FIRST_RETRY * 2.0 ** min(row.failures, 10))
        if failure.retry_after_s is not None:
            wait_s = max(failure.retry_after_s, self.params.host_gap_s)
            self.store.occupy(row.host, now_s + wait_s, f"asked us to wait ({failure.reason})")
        why = f"retried in {wait_s:.4g} s: {failure.reason}"
        self.store.record_failure(row, now_s + wait_s, why)
        return why

    def wake_s(self, now_s: float) -> float:
        """When there is something to do next, if nothing is under way."""
        replan_s, paid_s = self.store.fact("replan_s"), self.store.fact("paid_s") or 0.0
        due_s = self.store.next_due_s()
        # Something may be due whose host is not free, or whose bandwidth is not paid yet.
        moments = [replan_s, paid_s, self.store.next_free_s(now_s)]
        moments.append(None if due_s is None else max(due_s, paid_s))
        later = [moment for moment in moments if moment is not None and moment > now_s]
        return min(later, default=now_s + self.params.replan_s)


def _read_access(config: KeepConfig) -> dict[str, float]:
    if config.mirror.access is None:
        return {}
    path = config.path(config.mirror.access)
    table = read_table(path)
    if not {"id", "access"} <= set(table.column_names):
        raise ConfigError(str(path), "needs the columns id and access", "add them")
    return dict(
        zip(
            (str(i) for i in table["id"].to_pylist()),
            (float(a) for a in table["access"].to_pylist()),
            strict=True,
        )
    )
