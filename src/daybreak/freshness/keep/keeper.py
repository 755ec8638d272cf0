"""Keeps a mirror fresh: visits what is due, learns change rates, plans anew.

Pure of clocks: `step(now_s)` does at most one visit and says when the next one is possible, so
the same keeper runs in real time and, in tests, in made-up time against real servers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from daybreak.freshness.estimate import Prior, estimate_rates, exploration_floor
from daybreak.freshness.keep.config import KeepConfig
from daybreak.freshness.keep.sources import Fetched, Source, SourceError
from daybreak.freshness.keep.store import Row, Store
from daybreak.freshness.limits import Limits, floor_for_freshness
from daybreak.freshness.mirror import Floats, Mirror
from daybreak.freshness.planner import Plan, plan
from daybreak.freshness.tables import read_table
from daybreak.model.errors import ConfigError

#: The plan uses this share of the bandwidth; the rest is for retries and for catching up.
PLANNED_SHARE = 0.95
#: How many visits of an object its rate is estimated from.
REMEMBERED_VISITS = 200
#: After a failure the wait doubles, from this share of the object's interval on.
_FIRST_RETRY = 1 / 16


class Keeper:
    """One mirror being kept. Starting again on the same store continues where it stopped."""

    def __init__(self, config: KeepConfig, store: Store, sources: Mapping[str, Source]) -> None:
        self.params = config.mirror
        self.store = store
        self.sources = sources
        self.access = _read_access(config)
        self.plan: Plan | None = None
        #: What the last step did, for whoever shows it.
        self.said = ""

    def step(self, now_s: float) -> float:
        """Does what is due first, at most one visit; when to call again, at the latest."""
        if now_s >= (self.store.fact("replan_s") or 0.0) or self.plan is None:
            self.replan(now_s)
        paid_s = self.store.fact("paid_s") or 0.0
        hosts = self.store.hosts()
        row = self.store.due(now_s, hosts) if paid_s <= now_s else None
        self.said = ""
        if row is not None:
            self._visit(row, now_s)
            return now_s
        return self._wake_s(now_s, paid_s, hosts)

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
            except SourceError:
                continue  # Its objects stay as last listed; the next plan asks again.
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
        rates = estimate_rates(visits, len(rows), Prior(params.prior_rate, params.prior_weight))
        visited = np.bincount(visits.item, minlength=len(rows))
        mirror = Mirror.of(rates, [row.access for row in rows], place="access")
        bandwidth = params.bandwidth * PLANNED_SHARE
        floor = exploration_floor(visited, params.explore_periods, params.trusted_visits)
        # Learning must not eat more than a third of the bandwidth.
        floor *= min(1.0, bandwidth / 3 / max(float(floor.sum()), 1e-300))
        if params.least_freshness:
            floor = np.maximum(floor, floor_for_freshness(mirror, params.least_freshness))
        made = plan(mirror, bandwidth, Limits(floor=floor), start=self.store.fact("multiplier"))
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

    def _visit(self, row: Row, now_s: float) -> None:
        params = self.params
        gap_s = params.period_s / params.bandwidth
        interval_s = params.period_s / row.frequency if row.frequency else params.period_s
        failure: SourceError | None = None
        found: Fetched | None = None
        try:
            found = self.sources[row.source].fetch(row.name, row.version)
        except SourceError as error:
            failure = error
        with self.store.transaction():
            # Bandwidth is paid one visit after the other: after a pause, what is overdue goes
            # out at the usual pace, not all at once.
            paid_s = self.store.fact("paid_s") or 0.0
            self.store.set_fact("paid_s", max(paid_s, now_s) + gap_s)
            self.store.occupy(row.host, now_s + params.host_gap_s, "asked just now")
            if found is not None:
                changed = found.content is not None
                self.store.record_visit(
                    row, now_s, found.version, found.content, changed, now_s + interval_s
                )
                self.said = f"{row.name}: {'changed' if changed else 'unchanged'}"
            elif failure is not None:
                self._fail(row, failure, now_s, interval_s)

    def _fail(self, row: Row, failure: SourceError, now_s: float, interval_s: float) -> None:
        wait_s = interval_s * min(1.0, _FIRST_RETRY * 2.0**row.failures)
        if failure.retry_after_s is not None:
            wait_s = max(failure.retry_after_s, self.params.host_gap_s)
            self.store.occupy(row.host, now_s + wait_s, f"asked us to wait ({failure.reason})")
        why = f"retried in {wait_s:.4g} s: {failure.reason}"
        self.store.record_failure(row, now_s + wait_s, why)
        self.said = f"{row.name}: {why}"

    def _wake_s(self, now_s: float, paid_s: float, hosts: dict[str, float]) -> float:
        moments = [self.store.fact("replan_s") or now_s]
        due_s = self.store.next_due_s()
        if due_s is not None:
            moments.append(max(due_s, paid_s))
        later = [moment for moment in moments if moment > now_s]
        # Something is due but its host is not free, or the bandwidth is not paid yet.
        later += [moment for moment in (*hosts.values(), paid_s) if moment > now_s]
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
