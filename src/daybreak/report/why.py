"""Why answers were late, as a terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from daybreak.policies.reasons import Cause
from daybreak.runtime.display import count, duration, plural
from daybreak.runtime.why.answers import SlowAnswer
from daybreak.runtime.why.findings import Why
from daybreak.simulation.remedies import Remedies

#: What each cause is called in a sentence.
CAUSE_TEXT: Mapping[Cause, str] = {
    "source": "the source was late",
    "ingest": "rows were not listed yet",
    "paused": "paused by an operator",
    "retrying": "held after a failure",
    "own-job": "its own previous job still ran",
    "turn": "waited for its turn",
    "unplanned": "the plan leaves it out",
    "yielded": "made way for worthier queries",
    "busy": "no worker was free",
    "overrun": "a neighbour overran",
    "handover": "waited for its worker to begin",
    "compile": "Spark planned and compiled",
    "run": "computed",
    "disk": "commit: the disk",
    "delivery": "delivery to the sink",
    "shed": "rows were shed under overload",
    "unexplained": "waited, and nothing was noted",
}


#: A worst answer that stays above this share of what it was is no help.
LITTLE = 0.9


def why_lines(found: Why) -> Iterator[str]:
    """The head, what was lost to what, then the worst answer stage by stage."""
    yield head_line(found)
    if found.shed:
        yield f"  {plural(found.shed, 'row')} shed under overload: never answered  [shed]"
    if not found.worst:
        yield "  no answer in this time"
        return
    causes = [f"{CAUSE_TEXT[cause]} {s:.3f} s" for cause, s in found.causes if s >= 0.0005]
    if len(found.worst) > 1 and causes:
        yield f"  its {len(found.worst)} worst answers together: {', '.join(causes[:4])}"
    for number, answer in enumerate(found.worst):
        if number:
            yield ""
        yield from answer_lines(found, answer)


def remedy_lines(found: Remedies) -> Iterator[str]:
    """Commands and what they would have done, beside the error of the unchanged replay."""
    if found.why_none is not None:
        yield f"  what would help: no suggestion, since {found.why_none}"
        return
    yield (
        f"  what would help (replayed over {duration(found.seconds)}; unchanged: worst "
        f"{found.replayed_s:.3g} s, {count(found.missed)} missed, off by {found.error:.0%}):"
    )
    for one in found.helped:
        no = one.missed >= found.missed and one.worst_s >= found.replayed_s * LITTLE
        yield (
            f"    {one.command}   worst {one.worst_s:.3g} s +-{found.error:.0%}, "
            f"{count(one.missed)} missed{' (no help)' if no else ''}"
        )
    if found.untried:
        yield f"    {plural(found.untried, 'suggestion')} not tried: the time for replays was up"


def head_line(found: Why) -> str:
    goal = "no goal" if found.goal_s is None else f"goal {found.goal_s:g} s"
    span_s = found.stretch.to_s - found.stretch.from_s
    if found.goal_s is None:
        missed = f"{plural(found.answers, 'answer')} in {duration(span_s)}"
    else:
        of = plural(found.answers, "answer")
        missed = f"missed {count(found.missed)} of {of} in {duration(span_s)}"
    worst = ""
    if found.worst_s is not None:
        worst = f", worst {found.worst_s:.3f} s"
        if found.worst:
            worst += f" at {found.at(found.worst[0].committed_ns):%H:%M:%S}"
    return f"{found.query}   class {found.cls}   {goal}   {missed}{worst}"


def answer_lines(found: Why, answer: SlowAnswer) -> Iterator[str]:
    """One answer: its stages, which add up to its response time."""
    at, ms = found.at(answer.committed_ns), answer.stages_ms()
    first = answer.causes()[0][0] if answer.causes() else "run"
    yield f"  {answer.response_ms / 1e3:.3f} s at {at:%H:%M:%S}, first: {CAUSE_TEXT[first]}"
    if ms["created"]:
        yield f"  ({_s(ms['created'])}  before: rows were so old when the source showed them)"
    number = f"segment {answer.segment} of " if answer.segment >= 0 else ""
    batch = number + answer.stream
    rows = plural(answer.segment_rows, "row")
    yield f"    {_s(ms['ingested'])}  until ingested  ({batch}: {rows})"
    yield f"    {_s(ms['waited'])}  waited"
    parts = answer.wait
    rounded = rounded_to([part.ns for part in parts], ms["waited"]) if parts else []
    for part, part_ms in zip(parts, rounded, strict=True):
        yield f"             {_s(part_ms)}  {part.text}  [{part.cause}]"
    if ms["handed over"]:
        yield f"    {_s(ms['handed over'])}  until its worker began"
    along = f", with {answer.together - 1} others" if answer.together > 1 else ""
    cold = (
        f"; for {answer.cold_ns / 1e9:.3f} s Spark planned and compiled" if answer.cold_ns else ""
    )
    yield f"    {_s(ms['computed'])}  ran ({answer.way or 'nothing to compute'}{along}{cold})"
    yield f"    {_s(ms['committed'])}  commit: the disk took {answer.disk_ns / 1e9:.3f} s"
    if ms["delivered"]:
        yield f"  ({_s(ms['delivered'])}  after: delivery to its sink)"


def rounded_to(parts_ns: list[int], whole_ms: int) -> list[int]:
    """Milliseconds that add up to the whole, or to what is noted of it, whatever is rounded."""
    ends, total = [0], 0
    for ns in parts_ns:
        total += ns
        ends.append(min(whole_ms, round(total / 1e6)))
    return [until - since for since, until in pairwise(ends)]


def now_lines(now: Mapping[str, Any]) -> Iterator[str]:
    """What a query waits for at this moment."""
    if now["state"] != "running":
        error = f": {now['error']}" if now.get("error") else ""
        yield f"now: {now['state']}{error}; {plural(int(now['waiting']), 'row')} wait"
        return
    if not now["waiting"]:
        yield "now: nothing waits"
    else:
        yield f"now: {plural(int(now['waiting']), 'row')} wait, the oldest for {now['oldest_s']} s"
        if now["reason"] is not None:
            yield from reason_lines(now["reason"], "  ")
    for job in now["running"]:
        expected = f", {job['expected_s']} s expected" if job["expected_s"] else ""
        who = "its own job" if job["is_this"] else job["query"]
        along = f" and {job['together'] - 1} more" if job["together"] > 1 else ""
        yield f"  worker {job['worker']} runs {who}{along} for {job['for_s']} s{expected}"


def reason_lines(reason: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A policy's tree, a line for each node."""
    figures = ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}"
                        for k, v in reason.get("figures", {}).items())  # fmt: skip
    yield f"{indent}{reason['verdict']}" + (f"  ({figures})" if figures else "")
    for below in reason.get("because", ()):
        yield from reason_lines(below, indent + "  ")


def _s(ms: int) -> str:
    return f"{ms / 1e3:.3f} s"
