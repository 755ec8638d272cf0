"""Reads what a run on Spark recorded, and cuts a stretch out of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.runtime.record import ARRIVALS_FILE, JOBS_FILE
from daybreak.runtime.report import Backlog, Outputs, RunReport
from daybreak.runtime.staleness import Stale
from daybreak.runtime.starts import record_of
from daybreak.simulation.jobcosts import RecordedJob

#: A running run puts parts of its record together now and then, and a reader may come in between.
TRIES = 3
PAUSE_S = 0.2


@dataclass(frozen=True)
class RecordedRun:
    """A recorded run, or the record so far of one that goes on."""

    report: RunReport
    #: Arrivals in order of time: instant (ns), stream, tuples.
    at_ns: NDArray[np.int64]
    stream: list[str]
    tuples: NDArray[np.int64]
    #: In the order in which they began.
    jobs: list[RecordedJob]
    #: From where to where all series are there.
    from_ns: int
    end_ns: int

    @classmethod
    def load(cls, folder: Path) -> RecordedRun:
        """From the folder of a run on Spark, or its ``record`` folder."""
        record = record_of(folder)
        if (folder / "daybreak.json").exists() and not (record / "report.json").exists():
            raise ConfigError(
                str(folder), "has recorded nothing yet", "wait some ten seconds, and try again"
            )
        for left in reversed(range(TRIES)):
            if left < TRIES - 1:
                time.sleep(PAUSE_S)
            try:
                return cls._read(record)
            except (OSError, ValueError, KeyError) as error:
                if not left:
                    raise ConfigError(
                        str(folder),
                        f"holds no record of a run on Spark ({error})",
                        "name the directory of a run on Spark; simulate a pipeline with --compare",
                    ) from error
            except NewerFormat:
                raise
            except ConfigError:
                if not left:
                    raise
        raise AssertionError

    @classmethod
    def _read(cls, record: Path) -> RecordedRun:
        import pyarrow.parquet as pq

        report = RunReport.load(record)
        arrivals = pq.read_table(record / ARRIVALS_FILE, partitioning=None)
        jobs = _jobs(pq.read_table(record / JOBS_FILE, partitioning=None).to_pydict())
        at_ns = arrivals["at_ns"].to_numpy()
        order = np.argsort(at_ns, kind="stable")
        # The series end where they were last written, the head tells of later.
        sampled_ns = report.backlog.at_ns
        end_ns = min(report.spent.wall_ns, int(sampled_ns[-1])) if len(sampled_ns) else 0
        from_ns = 0
        if report.manifest.get("record_parts_dropped"):
            firsts = [at_ns[order[:1]], sampled_ns[:1], [j.committed_ns for j in jobs[:1]]]
            from_ns = max([0, *(int(n) for first in firsts for n in first)])
        streams = arrivals["stream"].to_pylist()
        return cls(
            report=report,
            at_ns=at_ns[order],
            stream=[streams[i] for i in order.tolist()],
            tuples=arrivals["tuples"].to_numpy()[order],
            jobs=jobs,
            from_ns=from_ns,
            end_ns=end_ns,
        )

    def stretch(self, from_ns: int, end_ns: int) -> RunReport:
        """The report of a part of the run, whose clock begins with it."""
        o = self.report.outputs
        mine = (o.departure_ns >= from_ns) & (o.departure_ns <= end_ns)
        stale = self.report.stale
        if stale is not None:
            some = (stale.until_ns >= from_ns) & (stale.until_ns <= end_ns)
            since_ns = np.maximum(stale.since_ns[some], from_ns) - from_ns
            stale = Stale(stale.query[some], since_ns, stale.until_ns[some] - from_ns)
        span_ns = end_ns - from_ns
        work_ns = sum(j.cost_ns for j in self.jobs if from_ns <= j.committed_ns <= end_ns)
        spent = self.report.spent
        threads = self.report.threads + 1  # the scheduler has one of its own
        return replace(
            self.report,
            outputs=Outputs(
                query=o.query[mine],
                arrival_ns=o.arrival_ns[mine] - from_ns,
                departure_ns=o.departure_ns[mine] - from_ns,
                tuples=o.tuples[mine],
            ),
            stale=stale,
            backlog=self._backlog(from_ns, end_ns),
            spent=replace(
                spent,
                wall_ns=span_ns,
                total_ns=span_ns * threads,
                scheduling_ns=round(spent.scheduling_ns * span_ns / max(1, spent.wall_ns)),
                call_ns=0,
                work_ns=work_ns,
            ),
        )

    def _backlog(self, from_ns: int, end_ns: int) -> Backlog:
        b = self.report.backlog
        mine = (b.at_ns >= from_ns) & (b.at_ns <= end_ns)
        rest = (b.pending[mine], b.done_ns[mine], b.offered_ns[mine], b.shed_ns[mine])
        return Backlog(b.at_ns[mine] - from_ns, *rest)

    def present(self, query: str) -> tuple[int, int]:
        """From when to when a query was there: others came or were dropped on the way."""
        begin, end = 0, self.end_ns
        for change in self.report.manifest.get("changes", ()):
            if change.get("subject") == query:
                at_ns = round(float(change["at_s"]) * 1e9)
                if change["what"] == "registered":
                    begin, end = at_ns, self.end_ns
                elif change["what"] == "dropped":
                    end = at_ns
        return begin, end


def _jobs(columns: Mapping[str, list[Any]]) -> list[RecordedJob]:
    """The queries that ran together are entered one after the other."""
    names, at_ns, rows = columns["query"], columns["committed_ns"], columns["rows"]
    jobs, i = [], 0
    while i < len(names):
        end = i + columns["together"][i]
        cost_ns = sum(columns["cost_ns"][i:end])
        queries = tuple(names[i:end])
        jobs.append(
            RecordedJob(queries, at_ns[i], columns["tuples"][i], tuple(rows[i:end]), cost_ns)
        )
        i = end
    return sorted(jobs, key=lambda j: j.committed_ns - j.cost_ns)
