"""A snapshot of a run for Prometheus, in its text format.

Names follow its conventions: base units, ``_total`` for what only grows, ``_ratio`` for shares.
Labels are the class, the query or the stream and little else, so the number of series is known:
about a dozen a class, sixteen a query (two more if governed), seven a stream. Late answers add one
for each of seventeen causes that a query has met.
Partitions of Kafka topics have three each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from daybreak.policies.reasons import CAUSES
from daybreak.runtime.snapshot import ClassRow, OffsetRow, QueryRow, Snapshot, StreamRow
from daybreak.version import __version__

#: What a response with the exposition is to be labelled.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES = ("running", "paused", "retrying", "parked", "ended")
#: Of StreamingQueries that Daybreak has not written: governed ones and those that run free.
FOREIGN_STATES = (*STATES, "failed", "free")
FOREIGN_KINDS = ("governed", "ungoverned")


def exposition(snapshot: Snapshot) -> bytes:
    """The text that Prometheus scrapes."""
    registry = CollectorRegistry()
    registry.register(_Once(snapshot))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        yield from _run(self._snapshot)
        yield from _classes(self._snapshot.classes)
        yield from _queries(self._snapshot.queries)
        yield from _waited(self._snapshot)
        yield from _streams(self._snapshot.streams)
        yield from _offsets(self._snapshot.offsets)


def _run(s: Snapshot) -> Iterator[Metric]:
    yield _info("daybreak_build_info", "The version of Daybreak.", version=__version__)
    yield _info(
        "daybreak_run_info", "The pipeline and its policy.", pipeline=s.pipeline, policy=s.policy
    )
    yield _gauge("daybreak_running", "Whether the run is under way.", float(s.state == "running"))
    if s.started_s is not None:
        yield _gauge("daybreak_start_time_seconds", "When the run began.", s.started_s)
    yield _gauge("daybreak_workers", "Threads that submit jobs.", s.workers)
    yield _counter("daybreak_decisions", "Decisions of the policy.", s.decisions)
    for kind, value, text in (
        ("scheduling", s.scheduling_s, "Processor time spent on scheduling."),
        ("work", s.work_s, "Time of jobs on Spark."),
        ("commit", s.commit_s, "Time to make results durable."),
        ("thread", s.total_s, "Time of all threads, idle or not: workers and the scheduler."),
    ):
        yield _counter(f"daybreak_{kind}_seconds", text, value)
    yield _gauge("daybreak_log_bytes", "What queries have not read yet.", s.log_bytes)
    if s.log_max_bytes is not None:
        text = "Beyond this queries lose rows, or sources wait."
        yield _gauge("daybreak_log_limit_bytes", text, s.log_max_bytes)
    text = "Chores that failed when they were last tried."
    yield _gauge("daybreak_housekeeping_troubles", text, len(s.troubles))


def _classes(rows: tuple[ClassRow, ...]) -> Iterator[Metric]:
    response = SummaryMetricFamily(
        "daybreak_response_seconds",
        "From arrival to durable result; quantiles of the last 5 s, sum and count of the run.",
        labels=["class"],
    )
    for c in rows:
        quantiles = (("0.5", c.recent.p50_s), ("0.95", c.recent.p95_s), ("0.99", c.recent.p99_s))
        for quantile, value in quantiles:
            if value is not None:
                labels = {"class": c.name, "quantile": quantile}
                response.add_sample(response.name, labels, value)
        response.add_metric([c.name], c.answered, c.response_sum_s)
    yield response
    yield from _gauges(
        "class",
        [((c.name,), c) for c in rows],
        priority=("The priority it has now.", lambda c: c.priority),
        queries=("Queries in it.", lambda c: c.queries),
        waiting_tuples=("Tuples that wait.", lambda c: c.recent.waiting),
        oldest_seconds=("Age of the oldest tuple that waits.", lambda c: c.oldest_s),
        utility_ratio=("Mean utility of the last 5 s.", lambda c: c.recent.utility),
        staleness_ratio=("Stale share of the last minute.", lambda c: c.recent.staleness),
        inversion_ratio=("Slower than the class below, by priority.", lambda c: c.inversion),
        starving=("Slower and slower though its input does not grow.", lambda c: c.starving),
    )


def _queries(rows: tuple[QueryRow, ...]) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "daybreak_query_state", "1 for the state it is in.", labels=["query", "class", "state"]
    )
    for q in rows:
        for name in FOREIGN_STATES if q.kind in FOREIGN_KINDS else STATES:
            state.add_metric([q.name, q.cls, name], float(q.state == name))
    yield state
    of = [((q.name, q.cls), q) for q in rows]
    yield from _gauges(
        "query",
        of,
        waiting_tuples=("Tuples that wait.", lambda q: q.waiting),
        oldest_seconds=("Age of the oldest tuple that waits.", lambda q: q.oldest_s),
        cost_seconds=("Estimated cost of a tuple.", lambda q: q.cost_us / 1e6),
        selectivity_ratio=("Estimated rows a tuple gives.", lambda q: q.selectivity),
        staleness_ratio=("Stale share of the last minute.", lambda q: q.staleness),
        failures=("Failures since its last success.", lambda q: q.failures),
    )
    yield from _gauges(
        "query",
        [(labels, q) for labels, q in of if q.behind is not None],
        behind_tuples=("Tuples that its whole result lacks.", lambda q: q.behind or 0),
        behind_seconds=("Age of the oldest of those.", lambda q: q.behind_s or 0.0),
    )
    yield from _counters(
        "query",
        of,
        tuples=("Tuples it has answered.", lambda q: q.tuples),
        rows=("Rows it has given.", lambda q: q.rows),
        jobs=("Jobs it took part in.", lambda q: q.jobs),
        lost_rows=("Rows that were given up.", lambda q: q.lost),
        rows_through_driver=("Rows it has given by way of the driver.", _passed),
    )


def _waited(s: Snapshot) -> Iterator[Metric]:
    """Seconds of late answers by cause: a series for each cause that a query has met."""
    lost = CounterMetricFamily(
        "daybreak_wait_seconds",
        "What answers beyond their goal lost time to; of a query without one, its slowest.",
        labels=["query", "reason"],
    )
    for query, causes in s.waited.items():
        for cause in CAUSES:
            if cause in causes:
                lost.add_metric([query, cause], causes[cause])
    yield lost


def _streams(rows: tuple[StreamRow, ...]) -> Iterator[Metric]:
    of = [((s.name,), s) for s in rows]
    yield from _counters(
        "stream",
        of,
        tuples=("Tuples that have arrived.", lambda s: s.arrived),
        dead_letters=("Malformed records that were kept aside.", lambda s: s.dead_letters),
        rows_through_driver=("Rows that the driver has held.", _passed),
        ingest_seconds=("Time that reading it took.", lambda s: s.ingest_work_s),
        ingest_wait_seconds=(
            "Time that it waited until the scheduler let it read.",
            lambda s: s.ingest_waited_s,
        ),
    )
    yield from _gauges(
        "stream",
        of,
        kept_bytes=("What is kept of it.", lambda s: s.bytes),
        kept_segments=("Segments that are kept of it.", lambda s: s.segments),
        blocked=("Whether its source waits for room.", lambda s: s.blocked),
        stopped=("Whether its source has failed for good.", lambda s: s.stopped),
        failing=("Whether its source has failed lately.", lambda s: s.error is not None),
    )


def _passed(row: QueryRow | StreamRow) -> int:
    return row.rows_through_driver


def _offsets(rows: tuple[OffsetRow, ...]) -> Iterator[Metric]:
    if not rows:
        return
    yield from _gauges(
        "kafka",
        [((o.stream, o.topic, str(o.partition)), o) for o in rows],
        read_offset=("The first offset that is not in the log yet.", lambda o: o.read),
        end_offset=("The offset that the next record will have.", lambda o: o.end),
        lag_records=("Records that are there and not in the log yet.", lambda o: o.lag),
    )


#: Label values of each row, and the row.
Rows = Sequence[tuple[tuple[str, ...], Any]]
_LABELS = {
    "class": ["class"],
    "query": ["query", "class"],
    "stream": ["stream"],
    "kafka": ["stream", "topic", "partition"],
}


def _gauges(subject: str, rows: Rows, /, **of: Any) -> Iterator[Metric]:
    for name, (text, value) in of.items():
        family = GaugeMetricFamily(f"daybreak_{subject}_{name}", text, labels=_LABELS[subject])
        for labels, row in rows:
            if (found := value(row)) is not None:
                family.add_metric(labels, float(found))
        yield family


def _counters(subject: str, rows: Rows, /, **of: Any) -> Iterator[Metric]:
    for name, (text, value) in of.items():
        family = CounterMetricFamily(f"daybreak_{subject}_{name}", text, labels=_LABELS[subject])
        for labels, row in rows:
            family.add_metric(labels, float(value(row)))
        yield family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _info(name: str, text: str, **labels: str) -> Metric:
    family = GaugeMetricFamily(name, text, labels=list(labels))
    family.add_metric(list(labels.values()), 1.0)
    return family
