"""The story of a query: the events and instructions of a journal that concern it, in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, NamedTuple

from daybreak.engine import events as ev
from daybreak.engine import instructions as do
from daybreak.engine.inbox import Waiting
from daybreak.engine.journal import Entry


class StoryLine(NamedTuple):
    """One event that an engine heard, or one instruction that it gave."""

    at_ns: int
    what: ev.Event | do.Instruction

    @property
    def is_event(self) -> bool:
        return isinstance(self.what, ev.Event)


def story_of(
    entries: Iterable[Entry], box: int, reads: Collection[str], cls: int
) -> list[StoryLine]:
    """What concerns the query of this box since it came, the newest last.

    ``reads``: its streams; ``cls``: its class. Of instructions that only count or inform, those
    about it are in the story, too.
    """
    reader = _Reader(box, reads, cls)
    for entry in entries:
        for event in entry.events:
            reader.read(entry.now_ns, event, reader.concerns_event(event))
        for instruction in entry.answer:
            reader.read(entry.now_ns, instruction, reader.concerns(instruction))
    return reader.lines


@dataclass
class _Reader:
    """Follows the numbers of orders, skips and commands to the query that they belong to."""

    box: int
    reads: Collection[str]
    cls: int
    lines: list[StoryLine] = field(default_factory=list)
    known_orders: set[int] = field(default_factory=set)
    known_skips: set[int] = field(default_factory=set)
    known_commands: set[int] = field(default_factory=set)

    def read(self, at_ns: int, what: ev.Event | do.Instruction, concerns: bool) -> None:
        if isinstance(what, ev.AddQuery) and concerns:
            self.lines.clear()  # what came before is about a query that was dropped
        if concerns:
            self.lines.append(StoryLine(at_ns, what))

    def concerns_event(self, event: ev.Event) -> bool:
        """Events without a rule concern the query that they name."""
        return _EVENTS.get(type(event), _names_it)(self, event)

    def concerns(self, instruction: do.Instruction) -> bool:
        return _INSTRUCTIONS.get(type(instruction), _names_it)(self, instruction)

    def orders(self, job: do.StartJob) -> bool:
        return self._note(
            self.known_orders, job.order, any(self.box in group.boxes for group in job.groups)
        )

    def skips(self, skip: do.Skip) -> bool:
        return self._note(
            self.known_skips, skip.skip, any(self.box == box for box, _ in skip.given)
        )

    def commands(self, command: ev.Resume | ev.Drop) -> bool:
        return self._note(self.known_commands, command.command, command.box == self.box)

    @staticmethod
    def _note(numbers: set[int], number: int, concerns: bool) -> bool:
        if concerns:
            numbers.add(number)
        return concerns


# As it is shown


def as_json(line: StoryLine, box: int, names: Sequence[str]) -> dict[str, Any]:
    """One line for a program; ``names``: of all queries."""
    return {
        "at": _instant(line.at_ns).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "at_ns": line.at_ns,
        "kind": "event" if line.is_event else "instruction",
        "what": type(line.what).__name__,
        **{key: value for key, value in _fields(line.what, box, names).items() if value},
    }


def as_text(line: StoryLine, box: int, names: Sequence[str]) -> str:
    """One line for a person."""
    return text_of(as_json(line, box, names))


def text_of(line: Mapping[str, Any]) -> str:
    """What ``as_json`` gave, as a line of text, in the time zone of whoever reads it."""
    about = {k: v for k, v in line.items() if k not in ("at", "at_ns", "kind", "what")}
    shown = " ".join(f"{key}={_short(value)}" for key, value in about.items())
    arrow = ">" if line["kind"] == "event" else "<"
    at = f"{_instant(line['at_ns']).astimezone():%H:%M:%S.%f}"[:-3]
    return f"{at} {arrow} {line['what']} {shown}".rstrip()


def _instant(at_ns: int) -> datetime:
    return datetime.fromtimestamp(at_ns / 1e9, UTC)


def _short(value: object) -> str:
    if isinstance(value, list):
        more = f",+{len(value) - 5}" if len(value) > 5 else ""
        return ",".join(str(item) for item in value[:5]) + more
    return str(value)


def _fields(what: ev.Event | do.Instruction, box: int, names: Sequence[str]) -> dict[str, Any]:
    """What a line states beside its type; values that are empty are left out later."""
    of = _SHOWN.get(type(what))
    if of is not None:
        return of(what, box, names)
    found = {f.name: getattr(what, f.name) for f in fields(what)}
    return {k: v for k, v in found.items() if k != "box" and isinstance(v, int | float | str)}


def _of_start(job: do.StartJob, box: int, names: Sequence[str]) -> dict[str, Any]:
    group = next(group for group in job.groups if box in group.boxes)
    before = job.groups[: job.groups.index(group)]
    return {
        "order": job.order, "worker": job.worker, "tuples": group.tuples,
        "taken": _ranges(group.taken), "along": [names[b] for b in group.boxes if b != box],
        "after": [names[g.boxes[0]] for g in before],
    }  # fmt: skip


def _of_account(account: do.Account, box: int, _names: Sequence[str]) -> dict[str, Any]:
    ran, at = account.ran, account.boxes.index(box)
    return {
        "worker": account.worker, "tuples": sum(item.tuples for item in account.taken),
        "rows": ran.rows[at], "work_s": _s(ran.work_ns), "commit_s": _s(ran.commit_ns),
        "share_s": _s(account.shares[at]), "way": ran.way,
    }  # fmt: skip


def _of_end(end: ev.JobEnded, box: int, _names: Sequence[str]) -> dict[str, Any]:
    ran = any(box in group.boxes for group in end.done)
    failure = None if ran or end.failure is None else end.failure.error
    return {"order": end.order, "ran": ran, "failure": failure, "cost_s": _s(end.cost_ns)}


def _of_delivery(event: ev.Delivered, _box: int, _names: Sequence[str]) -> dict[str, Any]:
    failure = None if event.failure is None else event.failure.error
    return {"failure": failure, "delivery": event.delivery, "skipped": event.skipped}


def _ranges(items: Iterable[Waiting]) -> list[str]:
    """Ranges of rows as STREAM/SEGMENT:ROW+COUNT, windows by their last end."""
    return [
        f"{w.stream}/{w.seq}:{w.row}+{w.tuples}" if w.seq >= 0 else f"{w.stream}<={w.closes_us}us"
        for w in items
    ]


def _s(ns: int) -> float:
    return round(ns / 1e9, 6)


def _names_it(reader: _Reader, what: Any) -> bool:
    found: bool = what.box == reader.box
    return found


def _reads(reader: _Reader, stream: str) -> bool:
    return stream in reader.reads


#: Which events and instructions concern a query, where they do not name it as theirs.
_EVENTS: Mapping[type, Callable[[_Reader, Any], bool]] = {
    ev.Started: lambda _r, _e: True,
    ev.Stop: lambda _r, _e: True,
    ev.SwitchPolicy: lambda _r, _e: True,
    ev.Woke: lambda _r, _e: False,
    ev.SegmentArrived: lambda r, e: _reads(r, e.segment.stream),
    ev.WatermarkRaised: lambda r, e: _reads(r, e.tick.stream),
    ev.SourceShows: lambda r, e: _reads(r, e.stream),
    ev.Ingested: lambda r, e: _reads(r, e.stream),
    ev.RangeArrived: lambda r, e: r.box in e.boxes,
    ev.JobBegan: lambda r, e: e.order in r.known_orders,
    ev.JobEnded: lambda r, e: e.order in r.known_orders,
    ev.Skipped: lambda r, e: e.skip in r.known_skips,
    ev.LogFull: lambda r, e: any(_reads(r, stream) for stream in e.cut),
    ev.SetPriority: lambda r, e: e.cls == r.cls,
    ev.Resume: _Reader.commands,
    ev.Drop: _Reader.commands,
}
_INSTRUCTIONS: Mapping[type, Callable[[_Reader, Any], bool]] = {
    do.StartJob: _Reader.orders,
    do.Skip: _Reader.skips,
    do.Ingest: lambda r, i: _reads(r, i.stream),
    do.CancelJob: lambda r, i: i.order in r.known_orders,
    do.AbandonJob: lambda r, i: i.order in r.known_orders,
    do.Account: lambda r, i: r.box in i.boxes,
    do.AccountFailure: lambda r, i: r.box in i.boxes,
    do.Shed: lambda r, i: r.box in i.tuples,
    do.Finished: lambda r, i: i.command in r.known_commands,
    do.WakeAt: lambda _r, _i: False,
}
#: What is shown of them, where it is not simply their fields.
_SHOWN: Mapping[type, Callable[[Any, int, Sequence[str]], dict[str, Any]]] = {
    ev.SegmentArrived: lambda e, _b, _n: {
        "stream": e.segment.stream, "segment": e.segment.seq, "rows": e.segment.rows,
    },
    ev.WatermarkRaised: lambda e, _b, _n: {
        "stream": e.tick.stream, "watermark_us": e.tick.watermark_us,
    },
    ev.RangeArrived: lambda e, _b, _n: {"range": _ranges((e.item,))},
    ev.LogFull: lambda e, _b, _n: {
        "before": [f"{stream}/{seq}:{row}" for stream, (seq, row) in e.cut.items()]
    },
    ev.SwitchPolicy: lambda e, _b, _n: {"policy": e.policy.name, "seed": e.seed},
    ev.JobEnded: _of_end,
    ev.Delivered: _of_delivery,
    do.StartJob: _of_start,
    do.Account: _of_account,
    do.AccountFailure: lambda i, _b, _n: {
        "worker": i.worker, "tuples": i.tuples, "cost_s": _s(i.cost_ns),
    },
    do.Skip: lambda i, b, _n: {"skip": i.skip, "given": _ranges(dict(i.given)[b]), "why": i.why},
    do.Shed: lambda i, b, _n: {"tuples": i.tuples[b]},
}  # fmt: skip
