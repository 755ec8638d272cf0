"""``docs/reference/metrics.md``: what ``/metrics`` exposes, from the exporter itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from tools.reference.markdown import page, table

from daybreak.dashboard.metrics import exposition
from daybreak.runtime.snapshot import (
    ClassPoint,
    ClassRow,
    OffsetRow,
    QueryRow,
    Snapshot,
    StreamRow,
)

INTRODUCTION = """\
The dashboard serves `/metrics` in the text format of Prometheus. From Python:
`daybreak.dashboard.metrics.exposition(run.snapshot())` (extra `web`). The number of series is
bounded: about a dozen per class, sixteen per query (two more if it is governed), seven per stream
and three per partition of a Kafka topic. Of `daybreak_wait_seconds_total` a query has one for each
reason that its late answers met, of those that [daybreak why](../how-to/why-late.md) names.

[`examples/prometheus-alerts.yml`](../../examples/prometheus-alerts.yml) has alerting rules.
"""


def metrics_page() -> str:
    rows = []
    for family in text_string_to_metric_families(exposition(_sample()).decode()):
        labels = {key for sample in family.samples for key in sample.labels}
        shown = ", ".join(f"`{label}`" for label in sorted(labels))
        total = "_total" if family.type == "counter" else ""
        rows.append((f"`{family.name}{total}`", family.type, shown, family.documentation))
    return page("Metrics", INTRODUCTION, table(("metric", "type", "labels", "meaning"), rows))


def _sample() -> Snapshot:
    """A run that has one of everything."""
    recent = _filled(ClassPoint, {})
    return Snapshot(
        pipeline="p", state="running", policy="stride", parameters={}, elapsed_s=1.0,
        started_s=1.0, workers=1, decisions=1, scheduling_s=1.0, work_s=1.0, commit_s=1.0,
        total_s=1.0,
        classes=(_filled(ClassRow, {"recent": recent, "name": "c"}),),
        queries=(_filled(QueryRow, {"name": "q", "cls": "c", "state": "running", "kind": "sql"}),),
        streams=(_filled(StreamRow, {"name": "s"}),),
        edges=(), underway=(), points=(), jobs=(), changes=(), troubles={}, log_max_bytes=1,
        offsets=(_filled(OffsetRow, {"stream": "s", "topic": "t"}),),
        waited={"q": {"busy": 1.0}},
    )  # fmt: skip


def _filled(kind: Any, given: dict[str, Any]) -> Any:
    """A row with these values and 1 everywhere else."""
    names: Sequence[str] = kind._fields
    return kind(**{name: given.get(name, 1) for name in names})
