"""The JSON of a journal: one line for what the engine was made of, then one line per entry.

An entry is ``[number, instant, events, decisions]``. Events and decisions are lists: the name of
the type, then its fields in the order of their declaration. Instructions that only account or
inform follow from the others and are left out. ``layout`` states all of it as text, and a test
compares that with the text of this ``FORMAT``.

Fields may be added at the end, with a default; whatever an older reader would misread takes another
``FORMAT``. A reader refuses what a later version wrote.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, partial
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from daybreak.engine import events as ev
from daybreak.engine import instructions as do
from daybreak.engine.core import Settings
from daybreak.engine.inbox import EntireInbox, Inbox, Tick, Waiting, WholeInbox
from daybreak.engine.journal import EngineOrigin, Entry
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.engine.window_inbox import BandClosing, GridClosing, WindowInbox
from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.model.qos import QoSGraph
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy, ProcessorUse
from daybreak.policies.registry import make_policy_with
from daybreak.version import __version__

FORMAT = 1
#: What an engine decides. ``Account``, ``AccountFailure`` and ``Notice`` follow from events.
DECISIONS: tuple[type, ...] = (
    do.StartJob, do.Ingest, do.CancelJob, do.AbandonJob, do.Skip, do.Redeliver, do.WakeAt, do.Shed,
    do.Finished,
)  # fmt: skip
_DECISIONS: Mapping[str, type] = {kind.__name__: kind for kind in DECISIONS}
EVENTS: Mapping[str, type] = {kind.__name__: kind for kind in get_args(ev.Event)}
#: Fields that are no part of what was decided: what it took, and the plan that groups were made of.
LEFT_OUT: Mapping[type, tuple[str, ...]] = {do.StartJob: ("work", "plan")}
INBOXES: Mapping[str, type[Inbox]] = {
    "rows": Inbox, "whole": WholeInbox, "entire": EntireInbox, "windows": WindowInbox
}  # fmt: skip


class Recorded(NamedTuple):
    """An entry as it is read: events for an engine, decisions as JSON."""

    number: int
    now_ns: int
    events: tuple[ev.Event, ...]
    decisions: list[Any]


class Segment(NamedTuple):
    """What an engine has to know of a segment."""

    arrival_ns: int
    stream: str
    seq: int
    rows: int
    borders: tuple[int, ...]
    after_us: int | None


# Writing


def entry_line(number: int, entry: Entry) -> str:
    """One entry as a line, without its end."""
    said = [number, entry.now_ns, entry.events, [i for i in entry.answer if type(i) in _WRITE]]
    return _COMPACT.encode(said)


def decisions(answer: Iterable[do.Instruction]) -> list[Any]:
    """The decisions of an answer, as a line holds them."""
    said = json.dumps([i for i in answer if type(i) in _WRITE], default=_written)
    found: list[Any] = json.loads(said)
    return found


def _written(value: Any) -> Any:
    write = _WRITE.get(type(value)) or _WRITE_EVENT.get(type(value))
    if write is not None:
        return write(value)
    if hasattr(value, "item"):  # an integer of numpy's
        return value.item()
    raise TypeError(f"a journal cannot hold a {type(value).__name__}")


def _plain(kind: type) -> Callable[[Any], list[Any]]:
    """Writes the fields of a dataclass in their order."""
    names, title = _kept(kind), kind.__name__
    return lambda value: [title, *[getattr(value, name) for name in names]]


def _segment(event: ev.SegmentArrived) -> list[Any]:
    s = event.segment
    known = Segment(s.arrival_ns, s.stream, s.seq, s.rows, tuple(s.borders), s.after_us)
    return ["SegmentArrived", known]


def _added(event: ev.AddQuery) -> list[Any]:
    """The network is told by what came to it: a query and its box."""
    network, box = event.network, event.box
    declared = [_sparse(network.boxes[box]), _sparse(network.queries[box])]
    return ["AddQuery", box, _sparse(event.facts), declared, _inbox(event.inbox)]


def _switched(event: ev.SwitchPolicy) -> list[Any]:
    return ["SwitchPolicy", _policy(event.policy), event.seed]


def _policy(policy: BasePolicy) -> list[Any]:
    usual = type(policy.params)()
    params = {k: v for k, v in policy.settings().items() if v != getattr(usual, k, None)}
    return [policy.name, params]


def _inbox(inbox: Inbox) -> list[Any]:
    kind = next((name for name, known in INBOXES.items() if type(inbox) is known), None)
    if kind is None:
        raise TypeError(f"a journal cannot hold a {type(inbox).__name__}")
    more: list[Any] = []
    if isinstance(inbox, WindowInbox):
        more = [type(inbox.rule).__name__, inbox.rule, inbox.state()]
    return [kind, list(inbox.waiting), *more]


def _sparse(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, by name."""
    found = {}
    for field in fields(value):
        one = getattr(value, field.name)
        if field.init and one != field.default:
            found[field.name] = list(one.points) if isinstance(one, QoSGraph) else one
    return found


def origin_line(origin: EngineOrigin) -> str:
    """The first line of a journal."""
    state, settings, network = origin.state, origin.settings, origin.state.network
    said = {
        "format": FORMAT,
        "daybreak": __version__,
        "network": {
            "streams": [stream.name for stream in network.streams],
            "boxes": [_sparse(box) for box in network.boxes],
            "queries": [_sparse(query) for query in network.queries],
            "classes": [_sparse(cls) for cls in network.classes],
        },
        "workers": state.workers,
        "express": state.express,
        "class_priority": state.class_priority,
        "query_class": state.query_class,
        "query_weight": state.query_weight,
        "facts": [_sparse(facts) for facts in origin.facts],
        "inboxes": [_inbox(inbox) for inbox in origin.inboxes],
        "policy": _policy(origin.policy),
        "seed": settings.seed,
        "rider_bound_ns": settings.rider_bound_ns,
        "limits": _sparse(settings.limits),
        "shedding": None if settings.shedding is None else _sparse(settings.shedding),
        "next_seq": origin.next_seq,
    }
    return _COMPACT.encode(said)


# Reading


@dataclass
class Reader:
    """Reads the lines of a journal in their order; ``place`` is named in what it raises."""

    place: str
    #: As it is after the queries that came so far.
    network: Network | None = None

    def origin(self, line: str) -> EngineOrigin:
        """What the engine was made of; the first line of a journal."""
        data = json.loads(line)
        if data["format"] > FORMAT:
            by = data.get("daybreak")
            raise NewerFormat(self.place, "journal format", data["format"], FORMAT, written_by=by)
        said = data["network"]
        self.network = network = Network(
            streams=[Stream(name=name) for name in said["streams"]],
            boxes=[_read(Box, one) for one in said["boxes"]],
            queries=[_read(Query, one) for one in said["queries"]],
            classes=[_read(QueryClass, one) for one in said["classes"]],
            as_listed=True,
        )
        state = JobState(network, data["workers"], express=data["express"])
        for name in ("class_priority", "query_class", "query_weight"):
            setattr(state, name, data[name])
        shedding = data["shedding"]
        settings = Settings(
            seed=data["seed"], rider_bound_ns=data["rider_bound_ns"],
            limits=_read(Limits, data["limits"]),
            shedding=None if shedding is None else _read(SheddingParams, shedding),
        )  # fmt: skip
        return EngineOrigin(
            state, tuple(_read(QueryFacts, one) for one in data["facts"]),
            tuple(map(_read_inbox, data["inboxes"])), self._policy(data["policy"]), settings,
            data["next_seq"],
        )  # fmt: skip

    def entry(self, line: str) -> Recorded:
        """One of the other lines."""
        number, now_ns, events, said = json.loads(line)
        decided = [self._decision(one) for one in said]
        today = json.loads(_COMPACT.encode(decided)) if decided else []
        return Recorded(number, now_ns, tuple(map(self._event, events)), today)

    def _decision(self, said: list[Any]) -> list[Any]:
        """As this version writes it: with the fields that were added since."""
        name, *values = said
        if name not in _DECISIONS:
            raise self._newer(f"decision {name!r}")
        kind = _DECISIONS[name]
        hints, known = get_hints(kind), [f for f in fields(kind) if f.name in _kept(kind)]
        if len(values) > len(known):
            raise self._newer(f"more fields of {name!r}")
        read = [_read(hints[f.name], v) for f, v in zip(known, values, strict=False)]
        return [name, *read, *(f.default for f in known[len(values) :])]

    def _event(self, said: list[Any]) -> ev.Event:
        name, *values = said
        kind = EVENTS.get(name)
        if kind is None:
            raise self._newer(f"event {name!r}")
        if kind is ev.SegmentArrived:
            return ev.SegmentArrived(_read(Segment, values[0]))
        if kind is ev.SwitchPolicy:
            return ev.SwitchPolicy(self._policy(values[0]), values[1])
        if kind is ev.AddQuery:
            return self._added(*values)
        if len(values) > len(_field_names(kind)):
            raise self._newer(f"more fields of {name!r}")
        event: ev.Event = _read_fields(kind, values)
        return event

    def _added(self, box: int, facts: Any, declared: list[Any], inbox: list[Any]) -> ev.AddQuery:
        assert self.network is not None
        added, query = _read(Box, declared[0]), _read(Query, declared[1])
        streams = [Stream(name=name) for name in added.inputs]
        self.network = made = self.network.with_query(added, query, streams)
        return ev.AddQuery(box, _read(QueryFacts, facts), made, _read_inbox(inbox))

    def _policy(self, said: list[Any]) -> BasePolicy:
        name, params = said
        return make_policy_with(name, **params)

    def _newer(self, what: str) -> ConfigError:
        return ConfigError(
            self.place, f"its journal holds {what}, which a later version of Daybreak wrote",
            "replay it with that version",
        )  # fmt: skip


def _read_inbox(said: list[Any]) -> Inbox:
    name, waiting, *more = said
    if name == "windows":
        kind, rule, state = more
        inbox: Inbox = _windows(kind, rule, state)
    else:
        inbox = INBOXES[name]()
    for item in waiting:
        inbox.put(_read(Waiting, item))
    return inbox


def _windows(kind: str, rule: Any, state: Any) -> WindowInbox:
    closing = _read(GridClosing if kind == GridClosing.__name__ else BandClosing, rule)
    inbox = WindowInbox(closing)
    inbox.restore(*state)
    return inbox


get_hints = cache(get_type_hints)


def _read(hint: Any, data: Any) -> Any:
    """A value of a declared type from its JSON."""
    return data if data is None else _reader(hint)(data)


@cache
def _reader(hint: Any) -> Callable[[Any], Any]:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _reader(next(arg for arg in args if arg is not type(None)))
    if origin is tuple:
        return partial(_read_tuple, args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return lambda data: {args[0](key): _read(args[1], value) for key, value in data.items()}
    if hint is QoSGraph:
        return lambda data: _graph(tuple(map(tuple, data)))
    if is_dataclass(hint) or hasattr(hint, "_fields"):
        return partial(_read_fields, hint)
    return lambda data: data


def _read_tuple(hints: tuple[Any, ...], data: list[Any]) -> tuple[Any, ...]:
    each = [hints[0]] * len(data) if hints[-1] is Ellipsis else hints
    return tuple(_read(hint, one) for hint, one in zip(each, data, strict=True))


def _read_fields(kind: Any, data: Any) -> Any:
    """A dataclass from its fields by name, or a named tuple from its fields in order."""
    hints = get_hints(kind)
    named = data if isinstance(data, dict) else dict(zip(_field_names(kind), data, strict=False))
    return kind(**{name: _read(hints[name], value) for name, value in named.items()})


@cache
def _graph(points: tuple[tuple[float, float], ...]) -> QoSGraph:
    """One graph for equal points, as queries of a class share theirs."""
    return QoSGraph(points)


# The format as text


def layout() -> list[str]:
    """Every event and every decision with its fields, as a journal of this version holds them."""
    kinds = [*EVENTS.values(), *DECISIONS]
    parts = [ev.Done, ev.Ran, ev.Failure, Waiting, Tick, Segment, ProcessorUse, do.Group]
    parts += [GridClosing, BandClosing, Box, Query, QueryClass, QueryFacts, Limits, SheddingParams]
    return [_shape(kind) for kind in (*kinds, *parts)]


def _shape(kind: type) -> str:
    declared = kind.__annotations__
    texts = {name: getattr(hint, "__forward_arg__", hint) for name, hint in declared.items()}
    return f"{kind.__name__}({', '.join(f'{n}: {texts[n]}' for n in _kept(kind))})"


def _kept(kind: type) -> list[str]:
    """The fields that a journal holds."""
    return [name for name in _field_names(kind) if name not in LEFT_OUT.get(kind, ())]


def _field_names(kind: type) -> Sequence[str]:
    if is_dataclass(kind):
        return [field.name for field in fields(kind) if field.init]
    names: Sequence[str] = kind._fields  # type: ignore[attr-defined]
    return names


_WRITE: Mapping[type, Callable[[Any], Any]] = {kind: _plain(kind) for kind in DECISIONS}
_WRITE_EVENT: Mapping[type, Callable[[Any], Any]] = {
    **{kind: _plain(kind) for kind in EVENTS.values()},
    ev.SegmentArrived: _segment,
    ev.AddQuery: _added,
    ev.SwitchPolicy: _switched,
}
_COMPACT = json.JSONEncoder(default=_written, separators=(",", ":"), check_circular=False)
