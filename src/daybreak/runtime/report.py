"""The run report: what a run leaves behind, and all that plots, commands and pages read.

Only what was observed is stored (when each result's tuple arrived and left, time spent by kind,
backlog, box counters); response times, utilities and summaries are derived from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.runtime.display import report_html, report_line
from daybreak.runtime.staleness import Stale

#: Of the whole record, series included. A change that this reader would misread raises it; what
#: it would only miss, such as a new column, does not.
FORMAT = 1
OUTPUTS_FILE = "outputs.parquet"
BACKLOG_FILE = "backlog.parquet"
STALE_FILE = "stale.parquet"
PERCENTILES = (10, 25, 50, 75, 90, 95, 99)


@dataclass(frozen=True)
class Outputs:
    """When tuples arrived and when their results left, grouped by query.

    In simulation one entry is one result tuple. On Spark one entry stands for the ``tuples`` of
    one segment that one job answered, whether or not they passed: a no is an answer too.
    """

    query: NDArray[np.int32]
    arrival_ns: NDArray[np.int64]
    departure_ns: NDArray[np.int64]
    tuples: NDArray[np.int64]
    #: The class of the query when it answered; None: the class it has in the report.
    cls: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.query)

    def columns(self, queries: Sequence[str], classes: Sequence[str]) -> dict[str, Any]:
        """As it is stored: names instead of numbers, which change from start to start."""
        return {
            "query": _names(self.query, queries),
            "arrival_ns": self.arrival_ns,
            "departure_ns": self.departure_ns,
            "tuples": self.tuples,
            **({} if self.cls is None else {"class": _names(self.cls, classes)}),
        }


@dataclass(frozen=True)
class Backlog:
    """Tuples waiting per class, sampled over time."""

    at_ns: NDArray[np.int64]
    #: One row per sample, one column per class.
    pending: NDArray[np.int64]
    #: So far: work that was done, that had come in, and that was saved by dropping tuples.
    done_ns: NDArray[np.float64]
    offered_ns: NDArray[np.float64]
    shed_ns: NDArray[np.float64]

    def columns(self, classes: Sequence[str]) -> dict[str, NDArray[Any]]:
        """As it is stored."""
        work = {"done": self.done_ns, "offered": self.offered_ns, "shed": self.shed_ns}
        waiting = {name: self.pending[:, c] for c, name in enumerate(classes)}
        return {"at_ns": self.at_ns, **{f"work.{k}_ns": v for k, v in work.items()}, **waiting}


@dataclass(frozen=True)
class Memory:
    """Bytes of the tuples in queues and in calls under way, from each instant to the next."""

    at_ns: NDArray[np.int64]
    held_bytes: NDArray[np.int64]

    @property
    def mean_bytes(self) -> float:
        """Over time, from the first record to the last."""
        spans = np.diff(self.at_ns)
        return float(np.average(self.held_bytes[:-1], weights=spans)) if spans.any() else math.nan

    @property
    def peak_bytes(self) -> int:
        return int(self.held_bytes.max())

    def at(self, instants_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """What was held at these instants; 0 before the first record."""
        last = np.searchsorted(self.at_ns, instants_ns, side="right") - 1
        held: NDArray[np.int64] = np.where(last < 0, 0, self.held_bytes[np.maximum(last, 0)])
        return held


@dataclass(frozen=True)
class TimeSpent:
    """Where the time of all threads went. The kinds add up to the total: the rest was idle.

    In simulation scheduling takes a worker's time; on Spark it has a thread of its own, which
    counts in the total, and whose processor time counts as scheduling.
    """

    wall_ns: int
    total_ns: int
    scheduling_ns: int
    call_ns: int
    storage_ns: int
    superbox_ns: int
    work_ns: int

    @property
    def overhead_ns(self) -> int:
        return self.scheduling_ns + self.call_ns + self.storage_ns + self.superbox_ns

    @property
    def idle_ns(self) -> int:
        return self.total_ns - self.overhead_ns - self.work_ns


@dataclass(frozen=True)
class Summary:
    """Response times (s) and utility of a group of results."""

    count: int
    mean_s: float
    percentiles_s: Mapping[int, float]
    #: Mean utility over the group's tuples; NaN where no QoS graph is declared.
    utility: float


@dataclass(frozen=True)
class RunReport:
    """An immutable record of one run."""

    manifest: Mapping[str, Any]
    classes: tuple[str, ...]
    priorities: tuple[float, ...]
    queries: tuple[str, ...]
    query_class: tuple[int, ...]
    qos: tuple[QoSGraph | None, ...]
    #: Freshness weights of the queries, as they were at the end.
    weights: tuple[float, ...]
    spent: TimeSpent
    outputs: Outputs
    backlog: Backlog
    #: Counters per box, as columns.
    boxes: Mapping[str, Sequence[Any]]
    #: Tuples of each query that were dropped at its inputs (load shedding).
    dropped: tuple[int, ...]
    #: Only where it was asked for.
    memory: Memory | None = None
    #: Only where results do not say it: on Spark, where an output is an answer, yes or no.
    stale: Stale | None = None

    def __repr__(self) -> str:
        """In a line: the fields hold every answer of the run."""
        return f"<RunReport {report_line(self)}>"

    def _repr_html_(self) -> str:
        return report_html(self)

    @property
    def threads(self) -> int:
        """Threads that ran jobs: the policy's workers and the express ones."""
        about = self.manifest
        # Records of old name no express workers, and the simulator has none.
        return max(1, int(about.get("workers", 1)) + int(about.get("express", 0)))

    @property
    def duration_s(self) -> float:
        """How long the run took; in virtual time if it was simulated."""
        return self.spent.wall_ns / NS_PER_S

    @cached_property
    def response_s(self) -> NDArray[np.float64]:
        """Response time of every result."""
        response: NDArray[np.float64] = (
            self.outputs.departure_ns - self.outputs.arrival_ns
        ) / NS_PER_S
        return response

    @cached_property
    def utility(self) -> NDArray[np.float64]:
        """Utility of every result; NaN where its query declares no QoS graph."""
        latency = self.outputs.departure_ns - self.outputs.arrival_ns
        worth = np.full(len(latency), np.nan)
        for q, graph in enumerate(self.qos):
            if graph is not None:
                span = self._span(q)
                worth[span] = graph.utility(latency[span])
        return worth

    def _span(self, query: int) -> slice:
        """Where a query's results lie: outputs are grouped by query."""
        first, last = np.searchsorted(self.outputs.query, [query, query + 1])
        return slice(int(first), int(last))

    @property
    def counts_answers(self) -> bool:
        """Whether an output is an answer, yes or no (on Spark), and not a result (simulated)."""
        return self.stale is not None

    @cached_property
    def result_rows(self) -> tuple[int, ...] | None:
        """Rows that each query delivered; None where every output is such a row."""
        if not self.counts_answers:
            return None
        rows = dict(zip(self.boxes["box"], self.boxes["tuples_out"], strict=True))
        return tuple(int(rows.get(name, 0)) for name in self.queries)

    @cached_property
    def class_of_output(self) -> NDArray[np.int64]:
        """The class that each output is charged to: what its query's was at that time."""
        if self.outputs.cls is not None:
            return self.outputs.cls.astype(np.int64)
        return np.array(self.query_class, dtype=np.int64)[self.outputs.query]

    def by_query(self) -> dict[str, Summary]:
        """Count, response times and utility of each query, in the order of declaration."""
        return {name: self._summary(self._span(q)) for q, name in enumerate(self.queries)}

    def by_class(self) -> dict[str, Summary]:
        """The same for each class; a result counts for the class its query had at that time."""
        return {
            name: self._summary(self.class_of_output == c) for c, name in enumerate(self.classes)
        }

    def overall(self) -> Summary:
        """The same for all results together."""
        return self._summary(slice(None))

    def _summary(self, which: slice | NDArray[np.bool_]) -> Summary:
        return summarise(self.response_s[which], self.utility[which], self.outputs.tuples[which])

    @cached_property
    def utility_per_application(self) -> float:
        """Average QoS: the mean over queries of each query's mean (aurora-thesis 4.3)."""
        means = [s.utility for s in self.by_query().values() if not math.isnan(s.utility)]
        return float(np.mean(means)) if means else math.nan

    @cached_property
    def staleness(self) -> NDArray[np.float64]:
        """Of each query: the share of the run in which it was stale (fas-mcq-paper, eq. 2).

        A query is stale from the arrival of an update that will reach its output until no such
        update is pending any more. Each result is such an update and says when it arrived and
        left, so stale time is what these intervals cover together: exact, whatever the schedule.
        On Spark the results of a job leave together, so it is stale since the first tuple of the
        job that gave a row; ``stale`` holds these intervals.
        """
        o = self.outputs
        stale = self.stale or Stale(o.query, o.arrival_ns, o.departure_ns)
        share: NDArray[np.float64] = stale.by_query(len(self.queries)) / max(self.spent.wall_ns, 1)
        return share

    @property
    def overall_staleness(self) -> float:
        """The mean over queries by their weights (eqs. 3 and 12)."""
        return float(np.average(self.staleness, weights=self.weights))

    def over_time(self, slots: int = 100) -> dict[str, NDArray[np.float64]]:
        """Mean response time and utility per class in equal slots of departure time.

        Columns ``time_s``, then ``response_s/CLASS`` and ``utility/CLASS``; NaN where nothing
        left.
        """
        edges = np.linspace(0, max(self.duration_s, 1e-9), slots + 1)
        left_s = self.outputs.departure_ns / NS_PER_S
        slot = np.clip(np.searchsorted(edges, left_s, side="right") - 1, 0, slots - 1)
        columns = {"time_s": edges[1:]}
        for c, name in enumerate(self.classes):
            mine = self.class_of_output == c
            for label, values in (("response_s", self.response_s), ("utility", self.utility)):
                columns[f"{label}/{name}"] = _slot_means(
                    slot[mine], values[mine], self.outputs.tuples[mine], slots
                )
        return columns

    def save(self, folder: Path) -> Path:
        """Writes the report as files; the manifest comes last, so a half-written one shows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        outputs = self.outputs.columns(self.queries, self.classes)
        pq.write_table(pa.table(outputs), folder / OUTPUTS_FILE)
        pq.write_table(pa.table(self.backlog.columns(self.classes)), folder / BACKLOG_FILE)
        if self.stale is not None:
            stale = {**vars(self.stale), "query": _names(self.stale.query, self.queries)}
            pq.write_table(pa.table(stale), folder / STALE_FILE)
        else:
            (folder / STALE_FILE).unlink(missing_ok=True)
        return self.save_head(folder)

    def save_head(self, folder: Path) -> Path:
        """The report without its series, where these are written in parts."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        boxes = folder / "boxes.parquet.partial"
        pq.write_table(pa.table(dict(self.boxes)), boxes)
        boxes.replace(folder / "boxes.parquet")
        if self.memory is not None:
            pq.write_table(pa.table(vars(self.memory)), folder / "memory.parquet")
        else:
            (folder / "memory.parquet").unlink(missing_ok=True)
        text = json.dumps(self._as_json(), indent=2, ensure_ascii=False)
        partial = folder / "report.json.partial"
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(folder / "report.json")
        return folder

    def _as_json(self) -> dict[str, Any]:
        by_query = (self.queries, self.query_class, self.weights, self.dropped, self.qos)
        return {
            "format": FORMAT,
            "manifest": dict(self.manifest),
            "classes": [
                {"name": n, "priority": p}
                for n, p in zip(self.classes, self.priorities, strict=True)
            ],
            "queries": [
                {"name": n, "class": self.classes[c], "weight": w, "dropped": d}
                | {"qos": qos.points if qos else None}
                for n, c, w, d, qos in zip(*by_query, strict=True)
            ],
            "spent": asdict(self.spent),
        }

    @classmethod
    def load(cls, folder: Path) -> RunReport:
        """Reads what ``save`` wrote, here or in an earlier version.

        ``NewerFormat`` if a later one wrote it; ``ConfigError`` if it is no report.
        """
        import pyarrow.parquet as pq

        try:
            data = json.loads((folder / "report.json").read_text(encoding="utf-8"))
            _check_format(folder, data)
            outputs = pq.read_table(folder / OUTPUTS_FILE, partitioning=None)
            backlog = pq.read_table(folder / BACKLOG_FILE, partitioning=None)
            boxes = pq.read_table(folder / "boxes.parquet")
            report = cls._from_parts(data, outputs, backlog, boxes)
            return replace(
                report,
                memory=_memory(folder / "memory.parquet"),
                stale=_stale(folder / STALE_FILE, report.queries),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                str(folder), f"holds no readable run report ({error})", "name a run's folder"
            ) from error

    def with_series(self, series: Mapping[str, Any]) -> RunReport:
        """A head and its series, Arrow tables by their files' names, as ``load`` joins them."""
        import pyarrow as pa

        outputs, backlog = series.get(OUTPUTS_FILE), series.get(BACKLOG_FILE)
        if outputs is None or backlog is None:
            return self
        stale = series.get(STALE_FILE)
        return replace(
            self._from_parts(self._as_json(), outputs, backlog, pa.table(dict(self.boxes))),
            memory=self.memory,
            stale=None if stale is None else _stale_of(stale, self.queries),
        )

    @classmethod
    def _from_parts(cls, data: dict[str, Any], outputs: Any, backlog: Any, boxes: Any) -> RunReport:
        classes = tuple(c["name"] for c in data["classes"])
        index = {name: i for i, name in enumerate(classes)}
        names = [q["name"] for q in data["queries"]]
        query = _index(outputs, "query", names)
        charged = _index(outputs, "class", classes) if "class" in outputs.column_names else None
        # Written in parts, each is grouped by query; so must be the whole.
        order = np.argsort(query, kind="stable")
        return cls(
            manifest=data["manifest"],
            classes=classes,
            priorities=tuple(c["priority"] for c in data["classes"]),
            queries=tuple(names),
            query_class=tuple(index[q["class"]] for q in data["queries"]),
            qos=tuple(
                QoSGraph(tuple((x, y) for x, y in q["qos"])) if q["qos"] else None
                for q in data["queries"]
            ),
            weights=tuple(q.get("weight", 1.0) for q in data["queries"]),
            spent=TimeSpent(**data["spent"]),
            outputs=Outputs(
                query=query[order],
                arrival_ns=outputs["arrival_ns"].to_numpy()[order],
                departure_ns=outputs["departure_ns"].to_numpy()[order],
                tuples=outputs["tuples"].to_numpy()[order],
                cls=None if charged is None else charged[order],
            ),
            backlog=Backlog(
                at_ns=backlog["at_ns"].to_numpy(),
                pending=np.column_stack([backlog[n].to_numpy() for n in classes]),
                done_ns=_column(backlog, "work.done_ns"),
                offered_ns=_column(backlog, "work.offered_ns"),
                shed_ns=_column(backlog, "work.shed_ns"),
            ),
            dropped=tuple(q.get("dropped", 0) for q in data["queries"]),
            boxes=boxes.to_pydict(),
        )


def _check_format(folder: Path, data: Any) -> None:
    """A record without a number is older than numbers: the first format."""
    if not isinstance(data, dict):
        raise ValueError("report.json is not an object")
    found, about = data.get("format", 1), data.get("manifest")
    if isinstance(found, bool) or not isinstance(found, int) or found < 1:
        raise ValueError(f"format {found!r}")
    if found > FORMAT:
        by = about.get("daybreak") if isinstance(about, dict) else None
        raise NewerFormat(str(folder), "record format", found, FORMAT, written_by=by)


def _memory(file: Path) -> Memory | None:
    import pyarrow.parquet as pq

    if not file.exists():
        return None
    weighed = pq.read_table(file)
    return Memory(*(weighed[n].to_numpy() for n in ("at_ns", "held_bytes")))


def _stale(series: Path, queries: Sequence[str]) -> Stale | None:
    """Stale intervals, in one file or in parts."""
    import pyarrow.parquet as pq

    if not series.exists():
        return None
    return _stale_of(pq.read_table(series, partitioning=None), queries)


def _stale_of(table: Any, queries: Sequence[str]) -> Stale:
    of = _index(table, "query", queries).tolist()
    rest = [table[name].to_pylist() for name in ("since_ns", "until_ns")]
    return Stale.of(list(zip(of, *rest, strict=True)))


def _names(index: NDArray[np.int32], names: Sequence[str]) -> Any:
    """Numbers as a dictionary-encoded column of names."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(pa.array(index), pa.array(names, pa.string()))


def _index(table: Any, column: str, names: Sequence[str]) -> NDArray[np.int32]:
    """The reverse: a column of names, as numbers."""
    if not table.num_rows:
        return np.empty(0, np.int32)
    stored = table[column].unify_dictionaries().combine_chunks()
    codes = [list(names).index(name) for name in stored.dictionary.to_pylist()]
    found: NDArray[np.int32] = np.array(codes, dtype=np.int32)[stored.indices.to_numpy()]
    return found


def _column(table: Any, name: str) -> NDArray[np.float64]:
    """A column of figures; NaN where the report is from before it was recorded."""
    if name not in table.column_names:
        return np.full(len(table), np.nan)
    figures: NDArray[np.float64] = table[name].to_numpy().astype(np.float64)
    return figures


def summarise(
    response_s: NDArray[np.float64], utility: NDArray[np.float64], tuples: NDArray[np.int64]
) -> Summary:
    """Mean, percentiles and utility over entries that stand for so many tuples each."""
    total = int(tuples.sum())
    if not total:
        nothing = dict.fromkeys(PERCENTILES, math.nan)
        return Summary(count=0, mean_s=math.nan, percentiles_s=nothing, utility=math.nan)
    known = ~np.isnan(utility)
    return Summary(
        count=total,
        mean_s=float(np.average(response_s, weights=tuples)),
        percentiles_s=weighted_percentiles(response_s, tuples),
        utility=float(np.average(utility[known], weights=tuples[known]))
        if known.any()
        else math.nan,
    )


def weighted_percentiles(
    values: NDArray[np.float64],
    tuples: NDArray[np.int64],
    percentiles: Sequence[int] = PERCENTILES,
) -> dict[int, float]:
    """The smallest value that at least p % of the tuples do not exceed."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(tuples[order])
    wanted = np.array(percentiles) / 100 * reached[-1]
    at = np.searchsorted(reached, wanted)
    return {p: float(values[order[i]]) for p, i in zip(percentiles, at, strict=True)}


def _slot_means(
    slot: NDArray[np.int64],
    values: NDArray[np.float64],
    tuples: NDArray[np.int64],
    slots: int,
) -> NDArray[np.float64]:
    counts = np.bincount(slot, weights=tuples, minlength=slots)
    sums = np.bincount(slot, weights=values * tuples, minlength=slots)
    means = np.full(slots, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means
