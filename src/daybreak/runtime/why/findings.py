"""Answers the question why a query was late, from the record of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError, suggestion
from daybreak.policies.reasons import Cause
from daybreak.runtime.report import RunReport
from daybreak.runtime.starts import earlier_starts, load_current, record_of
from daybreak.runtime.why.answers import SHED_FILE, STAGES, WAITS_FILE, SlowAnswer, WaitPart

#: Of the JSON that ``as_json`` gives.
FORMAT = 1
#: The clock times that are printed leave out the fraction of a second, so that a run's printed
#: start is earlier than its start by less than this: it is accepted as the start.
PRINTED_S = 1.0
#: So many of the worst answers are told.
WORST_TOLD = 3
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?")


@dataclass(frozen=True)
class RecordedStretch:
    """A part of one start of a run, in seconds since that start."""

    record: Path
    report: RunReport
    from_s: float
    to_s: float
    #: The end of what is recorded.
    end_s: float

    @property
    def started_s(self) -> float:
        return float(self.report.manifest.get("started_s") or 0.0)


@dataclass(frozen=True)
class Why:
    """How late a query's answers were in a stretch, and what the worst were lost to."""

    run: str
    query: str
    cls: str
    goal_s: float | None
    stretch: RecordedStretch
    answers: int
    missed: int
    worst_s: float | None
    #: The slowest answers that were noted, the slowest first.
    worst: tuple[SlowAnswer, ...]
    shed: int

    @property
    def causes(self) -> list[tuple[Cause, float]]:
        """Seconds that the worst answers lost, by cause, the largest first.

        Rows that were shed were lost altogether, and come first where they outnumber late answers.
        """
        total: dict[Cause, float] = {}
        for answer in self.worst:
            for cause, ns in answer.lost().items():
                total[cause] = total.get(cause, 0.0) + ns / 1e9
        ordered = sorted(total.items(), key=lambda pair: -pair[1])
        first: list[tuple[Cause, float]] = [("shed", 0.0)] if self.shed else []
        return [*first, *ordered] if self.shed > self.missed else [*ordered, *first]

    @property
    def neighbour(self) -> str | None:
        """The query whose jobs the worst answers waited for longest."""
        spent: dict[str, int] = {}
        for part in (part for answer in self.worst for part in answer.wait if part.by):
            spent[part.by] = spent.get(part.by, 0) + part.ns
        return max(spent, key=spent.__getitem__, default=None)

    def at(self, ns: int) -> datetime:
        """An instant of the record, as the clock on the wall of this process shows it."""
        return datetime.fromtimestamp(self.stretch.started_s + ns / 1e9).astimezone()

    def as_json(self) -> dict[str, Any]:
        """For programs; see docs/how-to/why-late.md."""
        return {
            "format": FORMAT,
            "run": self.run,
            "query": self.query,
            "class": self.cls,
            "goal_s": self.goal_s,
            "policy": self.stretch.report.manifest.get("policy"),
            "from_s": round(self.stretch.from_s, 3),
            "to_s": round(self.stretch.to_s, 3),
            "answers": self.answers,
            "missed": self.missed,
            "worst_s": self.worst_s,
            "shed": self.shed,
            "causes": [{"cause": cause, "seconds": round(s, 6)} for cause, s in self.causes],
            "worst": [self._answer(answer) for answer in self.worst],
        }

    def _answer(self, answer: SlowAnswer) -> dict[str, Any]:
        return {
            "at": self.at(answer.committed_ns).isoformat(timespec="milliseconds"),
            "response_ms": answer.response_ms,
            "tuples": answer.tuples,
            "stream": answer.stream,
            "segment": answer.segment,
            "segment_rows": answer.segment_rows,
            "together": answer.together,
            "way": answer.way,
            "stages_ms": answer.stages_ms(),
            "compile_ms": round(answer.cold_ns / 1e6),
            "disk_ms": round(answer.disk_ns / 1e6),
            "causes": [{"cause": c, "ms": round(ns / 1e6)} for c, ns in answer.causes()],
            "wait": [part_json(part) for part in answer.wait],
        }


def part_json(part: WaitPart) -> dict[str, Any]:
    reason = {"reason": json.loads(part.reason)} if part.reason else {}
    return {"cause": part.cause, "ms": round(part.ns / 1e6), "text": part.text, **reason}


def seconds_of(text: str, option: str) -> float:
    """``5m``, ``90 s``, ``1h``; seconds where no unit is given."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise ConfigError(option, f"{text!r} is no span of time", "give one such as 90s, 5m or 2h")
    return float(found[1]) * _UNIT_S[found[2] or "s"]


def why(
    folder: Path, query: str, *, at: str | None = None, last_s: float = 300.0,
    most: int = WORST_TOLD,
) -> Why:  # fmt: skip
    """The worst answers of a query in the newest stretch of its record, or around an instant.

    ``at``: a time of day, a date and time, or seconds since the start such as ``95s``.
    ``ConfigError`` where the query, the record or the time is not there, which names what is.
    """
    stretch = _stretch(folder, at, last_s)
    report = stretch.report
    if query not in report.queries:
        raise ConfigError(
            f"query {query!r}", f"is not in the record of {folder}",
            suggestion(query, report.queries),
        )  # fmt: skip
    q = report.queries.index(query)
    answered, response_ns = _answered(report, q, stretch)
    graph = report.qos[q]
    goal_ns = None if graph is None else graph.deadline_ns or None
    missed = 0 if goal_ns is None else int(answered[response_ns > goal_ns].sum())
    return Why(
        run=str(folder),
        query=query,
        cls=report.classes[report.query_class[q]],
        goal_s=None if goal_ns is None else goal_ns / 1e9,
        stretch=stretch,
        answers=int(answered.sum()),
        missed=missed,
        worst_s=float(response_ns.max()) / 1e9 if len(response_ns) else None,
        worst=tuple(noted_answers(stretch, query)[:most]),
        shed=_shed(stretch, query),
    )


def slowest_query(folder: Path, cls: str, last_s: float) -> str:
    """The query of a class that had the worst answer of the newest minutes."""
    stretch = _stretch(folder, None, last_s)
    report = stretch.report
    o, number = report.outputs, report.classes.index(cls) if cls in report.classes else -1
    late = o.departure_ns >= round(stretch.from_s * 1e9)
    mine = np.flatnonzero(late & (report.class_of_output == number))
    if not len(mine):
        raise ConfigError(f"class {cls!r}", "has no answers of late", "ask for one of its queries")
    response_ns = o.departure_ns[mine] - o.arrival_ns[mine]
    return report.queries[int(o.query[mine[int(response_ns.argmax())]])]


def _answered(
    report: RunReport, q: int, stretch: RecordedStretch
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tuples and response times of what the query answered in the stretch."""
    o = report.outputs
    from_ns, to_ns = round(stretch.from_s * 1e9), round(stretch.to_s * 1e9)
    mine = (o.query == q) & (o.departure_ns >= from_ns) & (o.departure_ns <= to_ns)
    return o.tuples[mine], o.departure_ns[mine] - o.arrival_ns[mine]


def noted_answers(stretch: RecordedStretch, query: str) -> list[SlowAnswer]:
    """The noted answers of a query that were committed in the stretch, the slowest first."""
    rows = _rows(stretch, WAITS_FILE, query)
    if rows is None:
        raise ConfigError(
            str(stretch.record),
            "holds no waits: an earlier Daybreak recorded it, it governs, or it simulated",
            "name a run on Spark of this version",
        )  # fmt: skip
    found = [SlowAnswer(**row) for row in rows if stretch.from_s <= row["committed_ns"] / 1e9]
    found = [answer for answer in found if answer.committed_ns / 1e9 <= stretch.to_s]
    return sorted(found, key=lambda answer: -answer.whole_ns)


def _shed(stretch: RecordedStretch, query: str) -> int:
    rows = _rows(stretch, SHED_FILE, query) or []
    return sum(r["tuples"] for r in rows if stretch.from_s <= r["at_ns"] / 1e9 <= stretch.to_s)


def _rows(stretch: RecordedStretch, series: str, query: str) -> list[Mapping[str, Any]] | None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if not (stretch.record / series).exists():
        return None
    table = pq.read_table(stretch.record / series, partitioning=None)
    names = table["query"].cast("string")
    rows: list[Mapping[str, Any]] = table.filter(pc.equal(names, query)).to_pylist()
    return rows


def _stretch(folder: Path, at: str | None, last_s: float) -> RecordedStretch:
    current = record_of(folder)
    if at is None:
        report = load_current(current)
        end_s = _end_s(report)
        return RecordedStretch(current, report, max(0.0, end_s - last_s), end_s, end_s)
    spans = []
    for record in (current, *reversed(earlier_starts(current))):
        try:
            report = load_current(record) if record == current else RunReport.load(record)
        except ConfigError:
            if record == current:
                raise
            continue
        started_s, end_s = float(report.manifest.get("started_s") or 0.0), _end_s(report)
        at_s = _since_start_s(at, started_s, end_s)
        if at_s is not None and -PRINTED_S < at_s <= end_s:
            at_s = max(0.0, at_s)
            from_s, to_s = max(0.0, at_s - last_s / 2), min(end_s, at_s + last_s / 2)
            return RecordedStretch(record, report, from_s, to_s, end_s)
        spans.append((started_s, started_s + end_s))
    kept = ", ".join(f"{_when(since)} to {_when(until)}" for since, until in reversed(spans))
    raise ConfigError(f"--at {at}", "is outside what is recorded", f"give a time from {kept}")


def _end_s(report: RunReport) -> float:
    return max(report.duration_s, 0.0)


def _since_start_s(at: str, started_s: float, end_s: float) -> float | None:
    """Seconds since a start; None where the text names another day."""
    if (clock := _CLOCK.fullmatch(at.strip())) is not None:
        begin = datetime.fromtimestamp(started_s).astimezone()
        midnight_s = begin.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()
        of_day_s = int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)
        days = range(int(end_s // 86_400) + 2)
        found = [midnight_s + day * 86_400 + of_day_s - started_s for day in days]
        # A run of several days has the time several times: the newest counts.
        inside = [s for s in found if -PRINTED_S < s <= end_s]
        return inside[-1] if inside else found[0]
    if _SPAN.fullmatch(at.strip()):
        return seconds_of(at, "--at")
    try:
        return datetime.fromisoformat(at.strip()).astimezone().timestamp() - started_s
    except ValueError:
        raise ConfigError(
            "--at", f"{at!r} is no time", "give 08:12:44, a date and time in ISO 8601, or 95s"
        ) from None


def _when(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s).astimezone().strftime("%Y-%m-%dT%H:%M:%S")


def stage_names() -> list[str]:
    """In the order in which an answer passes them."""
    return [name for name, _ in STAGES]
