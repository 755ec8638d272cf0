"""What ``planned`` planned during a run, second by second, and which jobs it made of that."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy
from daybreak.policies.planned import Planned
from daybreak.simulation.recorded import RecordedRun

EVERY_S = 1.0

Floats = NDArray[np.float64]


@contextmanager
def traced(policy: BasePolicy, path: Path | None) -> Iterator[None]:
    """Writes a line of JSON per second if ``planned`` runs; nothing without a path."""
    if path is None:
        yield
        return
    began_s, over = time.monotonic(), threading.Event()
    with path.open("w", encoding="utf-8") as file:

        def follow() -> None:
            while isinstance(policy, Planned) and not over.wait(EVERY_S):
                line = {"at_s": round(time.monotonic() - began_s, 3), **plan_now(policy)}
                file.write(json.dumps(line) + "\n")

        thread = threading.Thread(target=follow, name="trace", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def plan_now(policy: Planned) -> dict[str, Any]:
    """The plan that is followed; it is replaced as a whole, so any thread may read it."""
    planner = policy.planner
    plan = planner.plan
    if plan is None:
        return {}
    names = [query.name for query in policy.view.network.queries]
    figures = plan.periods
    cells = [
        {
            "queries": [names[q] for q in cell.queries],
            "period_s": _rounded(figures.period_s[c]),
            "load": _rounded(figures.load[c]),
            "job_s": _rounded(figures.job_s[c]),
            "fixed_ms": _rounded(1e3 * flow.fixed_s),
            "per_tuple_ns": _rounded(NS_PER_S * flow.per_tuple_s),
            "rate_per_s": round(flow.rate_per_s),
            "backlog_s": _rounded(flow.backlog_s),
            "corrected": _rounded(planner.correction(cell)),
            "jobs": planner.jobs(cell),
            "returning": c in plan.returning,
        }
        for c, (cell, flow) in enumerate(zip(plan.cells, plan.flows, strict=True))
    ]
    return {
        "utility": _rounded(plan.utility or 0.0),
        "usable": _rounded(planner.usable.count),
        "strain": _rounded(planner.strain),
        "cells": cells,
    }


def add_jobs(record: RecordedRun, path: Path) -> None:
    """Appends the jobs of the run, and how many others ran beside each."""
    committed_s = np.array([job.committed_ns for job in record.jobs]) / NS_PER_S
    took_s = np.array([job.cost_ns for job in record.jobs]) / NS_PER_S
    beside = others(committed_s - took_s, committed_s)
    with path.open("a", encoding="utf-8") as file:
        for n, job in enumerate(record.jobs):
            line = {
                "job": job.queries[0],
                "riders": len(job.queries) - 1,
                "committed_s": _rounded(committed_s[n]),
                "took_s": _rounded(took_s[n]),
                "tuples": job.tuples,
                "beside": _rounded(beside[n]),
            }
            file.write(json.dumps(line) + "\n")


def others(begun_s: Floats, ended_s: Floats) -> Floats:
    """By job: how many others ran meanwhile, on average."""
    first = np.maximum(begun_s[:, None], begun_s)
    both_s = np.maximum(np.minimum(ended_s[:, None], ended_s) - first, 0.0)
    found: Floats = both_s.sum(axis=1) / np.maximum(ended_s - begun_s, 1e-9) - 1
    return found


def _rounded(figure: float) -> float | None:
    """Four places; None for infinite ones, which JSON does not have."""
    return round(float(figure), 4) if abs(figure) < 1e12 else None
