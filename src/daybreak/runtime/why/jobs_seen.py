"""The jobs of the last moments: who held the workers while a query waited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: Ended jobs that are remembered, to name those that ran during a wait. At 100 jobs a second they
#: cover ten seconds; half of them names fewer neighbours of a long wait, twice as many take 0.2 MB
#: more and make explaining a wait slower by 0.1 ms.
MOST_JOBS = 1000
#: Ends of several workers may be reported out of order by so many.
MOST_LATE_ENDS = 32
#: A policy and the book stamp the same decision less than this apart.
SOON_NS = 50_000_000
#: The end of a job under way.
NEVER = 2**62
Span = tuple[int, int]


class JobSeen(NamedTuple):
    """A job that ended, or is under way."""

    worker: int
    boxes: tuple[int, ...]
    tuples: int
    begun_ns: int
    ended_ns: int
    #: By what its queries cost so far; 0: nothing was known.
    expected_ns: float
    cold_ns: int = 0
    #: Its commit and delivery.
    commit_ns: int = 0


class JobsSeen:
    """One thread writes and reads it."""

    def __init__(self) -> None:
        self._ended: deque[JobSeen] = deque(maxlen=MOST_JOBS)
        self.under_way: dict[int, JobSeen] = {}

    def began(self, job: JobSeen) -> None:
        self.under_way[job.worker] = job

    def ended(self, job: JobSeen) -> None:
        self._ended.append(job)
        begun = self.under_way.get(job.worker)
        if begun is not None and begun.boxes[:1] == job.boxes[:1]:
            del self.under_way[job.worker]

    def during(self, since_ns: int, until_ns: int) -> list[JobSeen]:
        """Jobs that ran in this time, cut to it, the earliest first."""
        found = [
            job._replace(begun_ns=max(job.begun_ns, since_ns), ended_ns=min(job.ended_ns, until_ns))
            for job in (*self._recent(since_ns), *self.under_way.values())
            if job.begun_ns < until_ns and job.ended_ns > since_ns
        ]
        return sorted(found, key=lambda job: job.begun_ns)

    def whole(self, job: JobSeen) -> JobSeen:
        """The job that was cut by ``during``."""
        for one in (*reversed(self._ended), *self.under_way.values()):
            same = one.worker == job.worker and one.boxes == job.boxes
            if same and one.begun_ns <= job.begun_ns and one.ended_ns >= job.ended_ns:
                return one if one.ended_ns != NEVER else one._replace(ended_ns=job.ended_ns)
        return job

    def _recent(self, since_ns: int) -> Iterator[JobSeen]:
        """Jobs end in about the order of their ends; one worker's always do."""
        late = 0
        for job in reversed(self._ended):
            late = late + 1 if job.ended_ns <= since_ns else 0
            if late > MOST_LATE_ENDS:
                return
            yield job


def cut(spans: Sequence[Span], taken: Span) -> tuple[int, list[Span]]:
    """How much of the spans (ns) lies in ``taken``, and what is left of them."""
    covered, left = 0, []
    for since, until in spans:
        begin, end = max(since, taken[0]), min(until, taken[1])
        if begin >= end:
            left.append((since, until))
            continue
        covered += end - begin
        left += [(a, b) for a, b in ((since, begin), (end, until)) if a < b]
    return covered, left


def crowded(spans: Sequence[Span], jobs: Sequence[JobSeen], workers: int) -> list[Span]:
    """When, of these spans, all workers ran jobs."""
    found = []
    for since, until in spans:
        mine = [job for job in jobs if job.begun_ns < until and job.ended_ns > since]
        edges = [(max(job.begun_ns, since), 1) for job in mine]
        edges += [(min(job.ended_ns, until), -1) for job in mine]
        running, before = 0, since
        for at, step in sorted(edges):
            if running >= workers and at > before:
                found.append((before, at))
            running, before = running + step, at
    return found
