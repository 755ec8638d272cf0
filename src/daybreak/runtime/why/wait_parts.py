"""Divides a wait into parts, and names what each was lost to."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import NamedTuple

from daybreak.policies.reasons import Cause, Reason
from daybreak.runtime.why.answers import WaitPart
from daybreak.runtime.why.jobs_seen import SOON_NS, JobSeen, JobsSeen, Span, crowded, cut

#: A job overran if it took so many times as long as expected, and longer by so much. Estimates of
#: short jobs are off by half all the time; at 1.2 every wait would be an overrun, at 4 a neighbour
#: that takes three times as long would pass for a busy one.
OVERRAN, OVERRAN_NS = 2.0, 50_000_000
#: A job is named for its compilation or its commit if that is so much of its time.
MOSTLY = 0.5
#: What a policy says of these parts comes before who was busy meanwhile; the rest after it.
FIRST = ("turn", "unplanned")
#: So many queries that were served before are named.
NAMED = 3


class Held(NamedTuple):
    """A query could not run from then to then, whatever the policy wanted."""

    state: str
    since_ns: int
    until_ns: int


class Waited(NamedTuple):
    """A wait that has ended, and what is known of it."""

    box: int
    since_ns: int
    until_ns: int
    held: Sequence[Held]
    #: The policy's own reason; None where it gives none.
    reason: Reason | None
    policy: str
    workers: int
    name: Callable[[int], str]


def wait_parts(waited: Waited, jobs: JobsSeen) -> list[WaitPart]:
    """Parts that together are no longer than the wait, the longest first."""
    left: list[Span] = [(waited.since_ns, waited.until_ns)]
    parts: list[WaitPart] = []

    def take(cause: Cause, span: Span, text: str, reason: str = "", by: str = "") -> None:
        nonlocal left
        ns, left = cut(left, span)
        if ns > 0:
            parts.append(WaitPart(cause, ns, text, reason, by))

    for held in waited.held:
        cause: Cause = "paused" if held.state == "paused" else "retrying"
        take(cause, (held.since_ns, held.until_ns), _held_text(held))
    reason = "" if waited.reason is None else json.dumps(waited.reason.as_json())
    seen = jobs.during(waited.since_ns, waited.until_ns)
    for job in seen:
        if waited.box in job.boxes:
            whole = jobs.whole(job)
            text = f"its previous job ran {_s(whole.ended_ns - whole.begun_ns)}"
            take(_of_job(whole, "own-job"), (job.begun_ns, job.ended_ns), text + _mostly(whole))
    told = [] if waited.reason is None else list(waited.reason.parts())
    for part in told:
        if part.cause in FIRST and part.span_ns is not None:
            take(part.cause, part.span_ns, part.verdict, reason)
    others = [job for job in seen if waited.box not in job.boxes]
    for span in crowded(list(left), others, waited.workers):
        holders = [j for j in others if j.begun_ns < span[1] and j.ended_ns > span[0]]
        culprit = max(
            (_as_expected(jobs.whole(job), waited) for job in holders),
            key=lambda job: (_overran(job), job.ended_ns - job.begun_ns),
        )
        by = waited.name(culprit.boxes[0])
        take(_of_job(culprit, "busy"), span, holder_text(culprit, waited.name), reason, by)
    for part in told:
        if part.cause is not None and part.span_ns is not None:
            take(part.cause, part.span_ns, part.verdict, reason)
    if left:
        ns = sum(until - since for since, until in left)
        parts.append(WaitPart("turn", ns, _before(waited, others)))
    return _joined(parts)


def _as_expected(job: JobSeen, waited: Waited) -> JobSeen:
    """With what the policy expected of it, where its reason names the job."""
    for reason in () if waited.reason is None else waited.reason.every():
        expected_s = reason.figures.get("expected_s")
        if reason.worker is None or not isinstance(expected_s, float):
            continue
        worker, begun_ns = reason.worker
        if worker == job.worker and abs(begun_ns - job.begun_ns) <= SOON_NS:
            return job._replace(expected_ns=expected_s * 1e9)
    return job


def _of_job(job: JobSeen, otherwise: Cause) -> Cause:
    """What a wait for this job was lost to."""
    took_ns = job.ended_ns - job.begun_ns
    if job.commit_ns > MOSTLY * took_ns:
        return "disk"
    if job.cold_ns > MOSTLY * took_ns:
        return "compile"
    return "overrun" if otherwise == "busy" and _overran(job) else otherwise


def _mostly(job: JobSeen) -> str:
    took_ns = job.ended_ns - job.begun_ns
    if job.commit_ns > MOSTLY * took_ns:
        return f", of which its commit took {_s(job.commit_ns)}"
    if job.cold_ns > MOSTLY * took_ns:
        return f", of which Spark planned and compiled for most of {_s(job.cold_ns)}"
    return ""


def _overran(job: JobSeen) -> bool:
    return overran(job.ended_ns - job.begun_ns, job.expected_ns)


def overran(took_ns: float, expected_ns: float) -> bool:
    """Tells whether a job took far longer than expected."""
    far = took_ns > expected_ns * OVERRAN and took_ns > expected_ns + OVERRAN_NS
    return expected_ns > 0 and far


def holder_text(job: JobSeen, name: Callable[[int], str]) -> str:
    """Who held a worker, for how long, and how long that was expected to take."""
    along = f" and {len(job.boxes) - 1} more" if len(job.boxes) > 1 else ""
    ran = f"no worker was free: {name(job.boxes[0])}{along} ran {_s(job.ended_ns - job.begun_ns)}"
    expected = f", {_s(job.expected_ns)} were expected" if job.expected_ns else ""
    return ran + expected + _mostly(job)


def _held_text(held: Held) -> str:
    return {
        "paused": "it was paused",
        "parked": "it was parked after failures",
        "retrying": "it had failed, and waited to be tried again",
    }.get(held.state, f"it was {held.state}")


def _before(waited: Waited, others: Sequence[JobSeen]) -> str:
    """Names who was served meanwhile, those that ran longest first."""
    spent: dict[int, int] = {}
    for job in others:
        spent[job.boxes[0]] = spent.get(job.boxes[0], 0) + job.ended_ns - job.begun_ns
    if not spent:
        return f"for its turn under {waited.policy}"
    names = [waited.name(b) for b in sorted(spent, key=lambda b: -spent[b])]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"for its turn under {waited.policy}; served before: {', '.join(names[:NAMED])}{more}"


def _joined(parts: Sequence[WaitPart]) -> list[WaitPart]:
    """Parts that say the same are one."""
    found: dict[WaitPart, int] = {}
    for part in parts:
        said = part._replace(ns=0)
        found[said] = found.get(said, 0) + part.ns
    joined = [said._replace(ns=ns) for said, ns in found.items()]
    return sorted(joined, key=lambda part: -part.ns)


def _s(ns: float) -> str:
    return f"{ns / 1e9:.3g} s"
