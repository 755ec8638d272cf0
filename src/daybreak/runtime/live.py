"""The last few seconds of a running system, for whoever watches it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import numpy as np

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.report import Summary, summarise
from daybreak.runtime.state import SystemState


@dataclass(frozen=True)
class ClassNow:
    """One class at this moment: what it got lately, and what waits."""

    name: str
    priority: float
    recent: Summary
    waiting: int
    #: Age of the oldest waiting tuple.
    oldest_s: float


@dataclass(frozen=True)
class Snapshot:
    """What a live view shows."""

    elapsed_s: float
    classes: tuple[ClassNow, ...]
    answered_per_s: float


class Live:
    """Keeps the answers of the last ``window_s`` seconds. Written by one thread, read by any."""

    def __init__(self, state: SystemState, start_ns: int, window_s: float = 5.0) -> None:
        self._state = state
        self._start_ns = start_ns
        self._window_ns = round(window_s * NS_PER_S)
        self._recent: deque[tuple[int, int, int, int]] = deque()
        self._guard = threading.Lock()

    def answered(self, query: int, arrival_ns: int, departure_ns: int, tuples: int) -> None:
        with self._guard:
            self._recent.append((departure_ns, query, departure_ns - arrival_ns, tuples))
            while self._recent[0][0] < departure_ns - self._window_ns:
                self._recent.popleft()

    def snapshot(self, now_ns: int) -> Snapshot:
        """``now_ns`` on the clock of the arrivals."""
        with self._guard:
            recent = [r for r in self._recent if r[0] >= now_ns - self._window_ns]
        state = self._state
        network = state.network
        entries = np.array(recent, dtype=np.int64).reshape(-1, 4)
        cls = np.array(state.query_class, dtype=np.int64)[entries[:, 1]]
        worth = np.full(len(entries), np.nan)
        for i, (_, query, latency_ns, _) in enumerate(recent):
            graph = network.queries[query].qos
            if graph is not None:
                worth[i] = graph.utility([latency_ns])[0]
        found = []
        for c, declared in enumerate(network.classes):
            mine = cls == c
            waiting = [
                b
                for b, n in enumerate(state.pending)
                if n and min(state.query_class[q] for q in network.box_queries[b]) == c
            ]
            oldest = min((state.head_ns[b] for b in waiting), default=now_ns)
            found.append(
                ClassNow(
                    name=declared.name,
                    priority=state.class_priority[c],
                    recent=summarise(entries[mine, 2] / NS_PER_S, worth[mine], entries[mine, 3]),
                    waiting=sum(state.pending[b] for b in waiting),
                    oldest_s=max(0, now_ns - oldest) / NS_PER_S,
                )
            )
        return Snapshot(
            elapsed_s=(now_ns - self._start_ns) / NS_PER_S,
            classes=tuple(found),
            answered_per_s=float(entries[:, 3].sum()) / (self._window_ns / NS_PER_S),
        )
