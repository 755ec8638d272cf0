"""The story of a query: the events and instructions of a journal that concern it, in order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    _orders: set[int] = field(default_factory=set)
    _skips: set[int] = field(default_factory=set)
    _commands: set[int] = field(default_factory=set)

    def read(self, at_ns: int, what: ev.Event | do.Instruction, concerns: bool) -> None:
        if isinstance(what, ev.AddQuery) and concerns:
            self.lines.clear()  # what came before is about a query that was dropped
        if concerns:
            self.lines.append(StoryLine(at_ns, what))

    def concerns_event(self, event: ev.Event) -> bool:
        match event:
            case ev.SegmentArrived(segment):
                return segment.stream in self.reads
            case ev.WatermarkRaised(tick):
                return tick.stream in self.reads
            case ev.RangeArrived(boxes):
                return self.box in boxes
            case ev.JobBegan(order) | ev.JobEnded(order):
                return order in self._orders
            case ev.Skipped(skip):
                return skip in self._skips
            case ev.LogFull(cut):
                return any(stream in self.reads for stream in cut)
            case ev.SetPriority(cls):
                return cls == self.cls
            case ev.Resume(box, command=command) | ev.Drop(box, command):
                if box == self.box:
                    self._commands.add(command)
                return box == self.box
            case ev.Started() | ev.Stop() | ev.SwitchPolicy():
                return True
            case ev.Woke():
                return False
        return event.box == self.box

    def concerns(self, instruction: do.Instruction) -> bool:
        box = self.box
        match instruction:
            case do.StartJob(order, groups=groups):
                mine = any(box in group.boxes for group in groups)
                self._orders |= {order} if mine else set()
                return mine
            case do.CancelJob(order=order) | do.AbandonJob(order=order):
                return order in self._orders
            case do.Skip(skip, given):
                mine = any(box == of for of, _ in given)
                self._skips |= {skip} if mine else set()
                return mine
            case do.Account(boxes=boxes) | do.AccountFailure(boxes=boxes):
                return box in boxes
            case do.Shed(tuples):
                return box in tuples
            case do.Finished(command):
                return command in self._commands
            case do.WakeAt():
                return False
        return instruction.box == box


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
    if isinstance(what, ev.Event):
        return _of_event(what, box)
    match what:
        case do.StartJob(order, worker, groups=groups):
            group = next(group for group in groups if box in group.boxes)
            along = [names[b] for b in group.boxes if b != box]
            return {
                "order": order, "worker": worker, "tuples": group.tuples,
                "taken": _ranges(group.taken), "along": along,
                "after": [names[g.boxes[0]] for g in groups[: groups.index(group)]],
            }  # fmt: skip
        case do.CancelJob(worker, order, group) | do.AbandonJob(worker, order, group):
            return {"order": order, "worker": worker, "group": group}
        case do.Skip(skip, given, why):
            return {"skip": skip, "given": _ranges(dict(given)[box]), "why": why}
        case do.Redeliver(_, delivery, skip):
            return {"delivery": delivery, "skip": skip}
        case do.Account(worker, boxes, taken, ran, shares):
            at = boxes.index(box)
            return {
                "worker": worker, "tuples": sum(item.tuples for item in taken),
                "rows": ran.rows[at], "work_s": _s(ran.work_ns), "commit_s": _s(ran.commit_ns),
                "share_s": _s(shares[at]), "way": ran.way,
            }  # fmt: skip
        case do.AccountFailure(worker, _, tuples, cost_ns):
            return {"worker": worker, "tuples": tuples, "cost_s": _s(cost_ns)}
        case do.Shed(tuples):
            return {"tuples": tuples[box]}
        case do.Finished(command, skipped, refused):
            return {"command": command, "skipped": skipped, "refused": refused}
        case do.Notice(event, message, level=level):
            return {"event": event, "message": message, "level": level}
        case do.WakeAt(at_ns):
            return {"at_ns": at_ns}


def _of_event(event: ev.Event, box: int) -> dict[str, Any]:
    match event:
        case ev.SegmentArrived(segment):
            return {"stream": segment.stream, "segment": segment.seq, "rows": segment.rows}
        case ev.WatermarkRaised(tick):
            return {"stream": tick.stream, "watermark_us": tick.watermark_us}
        case ev.RangeArrived(_, item):
            return {"range": _ranges((item,))}
        case ev.JobBegan(order, group):
            return {"order": order, "group": group}
        case ev.JobEnded(order, done, failure, cost_ns):
            ran = any(box in group.boxes for group in done)
            error = failure.error if failure is not None and not ran else None
            return {"order": order, "ran": ran, "failure": error, "cost_s": _s(cost_ns)}
        case ev.Delivered(_, failure, delivery, skipped):
            error = failure.error if failure is not None else None
            return {"failure": error, "delivery": delivery, "skipped": skipped}
        case ev.Skipped(skip, recorded):
            return {"skip": skip, "recorded": recorded}
        case ev.LogFull(cut):
            return {"before": [f"{s}/{seq}:{row}" for s, (seq, row) in cut.items()]}
        case ev.SetPriority(_, priority):
            return {"priority": priority}
        case ev.AssignClass(_, cls):
            return {"class": cls}
        case ev.SetWeight(_, weight):
            return {"weight": weight}
        case ev.SetSubscribers(_, count):
            return {"count": count}
        case ev.SwitchPolicy(policy, seed):
            return {"policy": policy.name, "seed": seed}
        case ev.Resume(_, skip, command):
            return {"skip": skip, "command": command}
        case ev.Drop(_, command):
            return {"command": command}
    return {}


def _ranges(items: Iterable[Waiting]) -> list[str]:
    """Ranges of rows as STREAM/SEGMENT:ROW+COUNT, windows by their last end."""
    return [
        f"{w.stream}/{w.seq}:{w.row}+{w.tuples}" if w.seq >= 0 else f"{w.stream}<={w.closes_us}us"
        for w in items
    ]


def _s(ns: int) -> float:
    return round(ns / 1e9, 6)
