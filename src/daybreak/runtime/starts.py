"""All starts of a run directory: where earlier records are kept, and one report over all of them.

A record's times count from its own start, and replays need that. So each start keeps a record of
its own: the current one in ``record/``, earlier ones in ``record/starts/NNNNNN/``. A report over
all of them joins the starts end to end; the time between a stop and the next start is left out.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.runtime.report import Backlog, Outputs, RunReport, TimeSpent
from daybreak.runtime.staleness import Stale

STARTS = "starts"
#: Of a run that is started again and again, the oldest records go first.
MOST_STARTS = 100
#: Attempts at reading the record of a run that is writing it.
TRIES, PAUSE_S = 3, 0.2


def record_of(run: Path) -> Path:
    """The folder with a run's report: of its run directory, or that folder itself."""
    record = run / "record"
    return record if record.is_dir() else run


def keep_earlier_start(record: Path) -> None:
    """Moves what an earlier start left in ``record`` aside; without a report it is of no use."""
    left = [*record.glob("*.parquet"), *record.glob("report.json")]
    if (record / "report.json").exists():
        starts = earlier_starts(record)
        number = int(starts[-1].name) + 1 if starts else 1
        place = record / STARTS / f"{number:06d}"
        place.mkdir(parents=True)
        # The head last: a start moved by half, at a crash, is not taken for a whole one.
        for path in left:
            path.rename(place / path.name)
        for old in starts[: max(0, len(starts) + 1 - MOST_STARTS)]:
            shutil.rmtree(old)
        return
    for path in left:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def earlier_starts(record: Path) -> list[Path]:
    """The records of earlier starts, the oldest first."""
    return sorted(p for p in (record / STARTS).glob("[0-9]*") if p.name.isdecimal())


def load_run(run: Path) -> RunReport:
    """One report over all starts of a run directory, or of its record."""
    record = record_of(run)
    earlier = earlier_starts(record)
    reports = []
    unreadable = 0
    for folder in earlier:
        try:
            reports.append(RunReport.load(folder))
        except NewerFormat:  # left out, it would make a report that looks complete
            raise
        except ConfigError:  # killed while it was written
            unreadable += 1
    # The first seconds of a start have no report yet.
    if (record / "report.json").exists() or not reports:
        reports.append(load_current(record))
    if not earlier:
        return reports[0]
    joined = join_starts(reports)
    missing = {"starts_unreadable": unreadable, "starts_dropped": int(earlier[0].name) - 1}
    return replace(joined, manifest={**joined.manifest, **missing})


def load_current(record: Path) -> RunReport:
    """Reads the record of a start, several times if need be.

    The run may be under way, and put the parts of its record together at this moment.
    """
    for _ in range(TRIES - 1):
        try:
            return RunReport.load(record)
        except NewerFormat:
            raise
        except ConfigError:
            if not (record / "report.json").exists():
                raise
            time.sleep(PAUSE_S)
    return RunReport.load(record)


def join_starts(reports: Sequence[RunReport]) -> RunReport:
    """Reports of one run directory as one, end to end; the last one names what is declared."""
    last = reports[-1]
    # What the last start has comes first, so that its numbers stay; then what is gone by now.
    classes = _all_of(reports, lambda r: zip(r.classes, r.priorities, strict=True))
    queries = _all_of(reports, _declared)
    of_class = {name: i for i, name in enumerate(classes)}
    of_query = {name: i for i, name in enumerate(queries)}
    walls_ns = [r.spent.wall_ns for r in reports]
    begins_ns = np.concatenate([[0], np.cumsum(walls_ns)[:-1]]).tolist()
    return RunReport(
        manifest=_manifest(reports),
        classes=tuple(classes),
        priorities=tuple(classes.values()),
        queries=tuple(queries),
        query_class=tuple(of_class[cls] for cls, _, _ in queries.values()),
        qos=tuple(qos for _, qos, _ in queries.values()),
        weights=tuple(weight for _, _, weight in queries.values()),
        spent=TimeSpent(*np.sum([astuple(r.spent) for r in reports], axis=0).tolist()),
        outputs=_outputs(reports, begins_ns, of_query, of_class),
        backlog=_backlog(reports, begins_ns, of_class),
        boxes=_boxes(reports),
        dropped=_dropped(reports, queries),
        stale=None if last.stale is None else _stale(reports, begins_ns, of_query),
    )


def _all_of(reports: Sequence[RunReport], pairs: Callable[[RunReport], Any]) -> dict[str, Any]:
    """By name, as the latest start that has it declares it."""
    found: dict[str, Any] = {}
    for report in reversed(reports):
        for name, value in pairs(report):
            found.setdefault(name, value)
    return found


def _declared(report: RunReport) -> list[tuple[str, tuple[str, Any, float]]]:
    columns = (report.queries, report.query_class, report.qos, report.weights)
    return [(name, (report.classes[c], q, w)) for name, c, q, w in zip(*columns, strict=True)]


def _manifest(reports: Sequence[RunReport]) -> dict[str, Any]:
    starts = [
        {
            "started_s": r.manifest.get("started_s"),
            "duration_s": round(r.duration_s, 3),
            "policy": r.manifest.get("policy"),
        }
        for r in reports
    ]
    return {
        **reports[-1].manifest,
        "starts": starts,
        "decisions": sum(int(r.manifest.get("decisions", 0)) for r in reports),
        "record_parts_dropped": sum(
            int(r.manifest.get("record_parts_dropped", 0)) for r in reports
        ),
    }


def _renumbered(
    index: NDArray[Any], names: Sequence[str], numbers: Mapping[str, int]
) -> NDArray[np.int32]:
    table = np.array([numbers[name] for name in names], np.int32)
    return table[index] if len(index) else np.empty(0, np.int32)


def _outputs(
    reports: Sequence[RunReport],
    begins_ns: Sequence[int],
    of_query: Mapping[str, int],
    of_class: Mapping[str, int],
) -> Outputs:
    query = [_renumbered(r.outputs.query, r.queries, of_query) for r in reports]
    cls = [_renumbered(r.class_of_output, r.classes, of_class) for r in reports]
    order = np.argsort(np.concatenate(query), kind="stable")

    def joined(column: Sequence[NDArray[Any]]) -> NDArray[Any]:
        whole: NDArray[Any] = np.concatenate(column)[order]
        return whole

    pairs = list(zip(reports, begins_ns, strict=True))
    return Outputs(
        query=joined(query),
        arrival_ns=joined([r.outputs.arrival_ns + begin for r, begin in pairs]),
        departure_ns=joined([r.outputs.departure_ns + begin for r, begin in pairs]),
        tuples=joined([r.outputs.tuples for r in reports]),
        cls=joined(cls),
    )


def _stale(
    reports: Sequence[RunReport], begins_ns: Sequence[int], of_query: Mapping[str, int]
) -> Stale:
    rows: list[tuple[int, int, int]] = []
    for report, begin_ns in zip(reports, begins_ns, strict=True):
        if report.stale is not None:
            s = report.stale
            query = _renumbered(s.query, report.queries, of_query).tolist()
            # What an earlier start left pending is stale since before this one; that time is
            # the earlier start's.
            since = (np.maximum(s.since_ns, 0) + begin_ns).tolist()
            rows += zip(query, since, (s.until_ns + begin_ns).tolist(), strict=True)
    return Stale.of(rows)


def _backlog(
    reports: Sequence[RunReport], begins_ns: Sequence[int], of_class: Mapping[str, int]
) -> Backlog:
    parts = []
    before = np.zeros(3)  # the work counts from the first start on
    for report, begin_ns in zip(reports, begins_ns, strict=True):
        b = report.backlog
        pending = np.zeros((len(b.at_ns), len(of_class)), np.int64)
        pending[:, [of_class[name] for name in report.classes]] = b.pending
        work = np.array([b.done_ns, b.offered_ns, b.shed_ns]) + before[:, None]
        parts.append((b.at_ns + begin_ns, pending, *work))
        if len(b.at_ns):
            before = np.nan_to_num(work[:, -1])
    return Backlog(*(np.concatenate(column) for column in zip(*parts, strict=True)))


_COUNTED = ("calls", "tuples_in", "tuples_out", "work_ns")


def _boxes(reports: Sequence[RunReport]) -> dict[str, list[Any]]:
    """Counters add up; estimates are the latest."""
    found: dict[str, dict[str, Any]] = {}
    for report in reports:
        columns = dict(report.boxes)
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            earlier = found.get(row["box"], {})
            for name in _COUNTED:
                row[name] = row.get(name, 0) + earlier.get(name, 0)
            found[row["box"]] = {**earlier, **row}
    names = list(dict(reports[-1].boxes))
    return {name: [row.get(name) for row in found.values()] for name in names}


def _dropped(reports: Sequence[RunReport], queries: Mapping[str, Any]) -> tuple[int, ...]:
    total = dict.fromkeys(queries, 0)
    for report in reports:
        for name, dropped in zip(report.queries, report.dropped, strict=True):
            total[name] += dropped
    return tuple(total.values())
