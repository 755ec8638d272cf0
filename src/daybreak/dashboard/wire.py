"""What travels to the page: everything once, then only what is new. All of it JSON.

Rows of queries and jobs are lists in the order of their fields, which ``hello`` names. Jobs name
their set of queries by its place in the message's ``groups``: the same sets run again and again.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.runtime.snapshot import (
    HISTORY_S,
    ClassPoint,
    Edge,
    JobRow,
    Point,
    QueryRow,
)

Json = Mapping[str, Any]
#: A page that opens sees so many of the last jobs.
JOBS_SHOWN = 400
CHANGES_SHOWN = 200
_HEAD = (
    "pipeline", "state", "policy", "parameters", "elapsed_s", "started_s", "workers", "decisions",
    "scheduling_s", "work_s", "commit_s", "total_s", "classes", "streams", "underway", "troubles",
)  # fmt: skip
FIELDS = {
    "queries": QueryRow._fields,
    "jobs": JobRow._fields,
    "points": Point._fields,
    "class_points": ClassPoint._fields,
    "edges": Edge._fields,
}


class Picture:
    """What is known of a run; takes snapshots in, gives messages out."""

    def __init__(self) -> None:
        self._head: Json = {}
        self._queries: dict[int, tuple[Any, ...]] = {}
        self._edges: list[Any] = []
        self._points: deque[Sequence[Any]] = deque(maxlen=HISTORY_S)
        self._jobs: deque[Sequence[Any]] = deque(maxlen=JOBS_SHOWN)
        self._changes: deque[Json] = deque(maxlen=CHANGES_SHOWN)
        self._cursors = {"jobs_after": -1, "points_after": -1, "changes_after": -1}

    @property
    def wanted(self) -> dict[str, int]:
        """The values of the next ``snapshot`` command."""
        return dict(self._cursors)

    @property
    def known(self) -> bool:
        return bool(self._head)

    def is_other(self, snapshot: Json) -> bool:
        """Whether this is a snapshot of another run than the ones before, or of its end."""
        keys = ("pipeline", "started_s", "state")
        return any(self._head.get(key) != snapshot[key] for key in keys)

    def take(self, snapshot: Json) -> dict[str, Any]:
        """Updates the picture; returns what is new, for those who have the picture before."""
        jobs = [j for j in snapshot["jobs"] if j[0] > self._cursors["jobs_after"]]
        points = [p for p in snapshot["points"] if p[0] > self._cursors["points_after"]]
        changes = [c for c in snapshot["changes"] if c["seq"] > self._cursors["changes_after"]]
        queries = {q["number"]: tuple(q.values()) for q in snapshot["queries"]}
        news = {
            **_head(snapshot),
            "queries": [row for n, row in queries.items() if self._queries.get(n) != row],
            "gone": [n for n in self._queries if n not in queries],
            "edges": _edges(snapshot),
            "points": points,
            "changes": changes,
            **_packed(jobs),
        }
        self._head = _head(snapshot)
        self._queries, self._edges = queries, news["edges"]
        self._jobs.extend(jobs)
        self._points.extend(points)
        self._changes.extend(changes)
        for name, last in (("jobs", jobs), ("points", points)):
            if last:
                self._cursors[f"{name}_after"] = last[-1][0]
        if changes:
            self._cursors["changes_after"] = changes[-1]["seq"]
        return news

    def everything(self) -> dict[str, Any]:
        """For a page that has just opened."""
        return {
            **self._head,
            "fields": FIELDS,
            "queries": list(self._queries.values()),
            "gone": [],
            "edges": self._edges,
            "points": list(self._points),
            "changes": list(self._changes),
            **_packed(list(self._jobs)),
        }


def _head(snapshot: Json) -> dict[str, Any]:
    # A run of an earlier version, which is still under way, has neither offsets nor a plan.
    later = {"offsets": snapshot.get("offsets", ()), "plan": snapshot.get("plan")}
    return {**{key: snapshot[key] for key in _HEAD}, **later}


def _edges(snapshot: Json) -> list[Any]:
    """Only of queries over several streams: of others the query's own figure says it."""
    several = {q["number"] for q in snapshot["queries"] if len(q["reads"]) > 1}
    return [edge for edge in snapshot["edges"] if edge[1] in several]


def _packed(jobs: Sequence[Sequence[Any]]) -> dict[str, Any]:
    groups: dict[tuple[int, ...], int] = {}
    rows = [(*j[:4], groups.setdefault(tuple(j[4]), len(groups)), *j[5:]) for j in jobs]
    return {"jobs": rows, "groups": list(groups)}


def message(kind: str, number: str, data: Json) -> bytes:
    """One server-sent event."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # A line feed within JSON is always escaped, so the data is one line.
    return f"event: {kind}\nid: {number}\ndata: {text}\n\n".encode()
