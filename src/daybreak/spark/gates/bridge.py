"""The gates in Spark's driver, and what they report.

They are Java, in ``spark/java/governed``. One queue carries all that happens there to Python, as
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

from daybreak.spark.java.loader import JavaPackage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The property of a thread that names the class of the queries it starts.
CLASS_PROPERTY = "daybreak.class"
#: The property that names the function which starts its queries again.
RESTART_PROPERTY = "daybreak.restart"


class UnitGroup(NamedTuple):
    """Units of a source (files, offsets) that were first seen together and are not read yet."""

    arrival_ms: int
    #: The index of the source.
    source: int
    units: int


class SourceRead(NamedTuple):
    """What a micro-batch read of one source."""

    name: str
    #: Whether its backlog can be seen; else only an empty micro-batch shows that nothing waits.
    probed: bool
    rows: int = 0
    units: int = 0


class QueryStarted(NamedTuple):
    """A query of the session has started; ``free``: why it cannot be governed."""

    run: str
    id: str
    name: str | None
    cls: str | None
    restart: str | None
    free: str | None


class Ready(NamedTuple):
    """A query waits for a grant; what its last one did, and what it left."""

    run: str
    turn: int
    due_ms: int = 0
    sources: tuple[SourceRead, ...] = ()
    left: tuple[UnitGroup, ...] = ()
    #: Whether a micro-batch ran; what follows is about it.
    ran: bool = False
    ms: int = 0
    out: int = 0
    watermark: bool = False
    timers: bool = False

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.sources)


class Pending(NamedTuple):
    """What waits for a parked query now."""

    run: str
    turn: int
    groups: tuple[UnitGroup, ...]
    #: Somebody is inside ``processAllAvailable``.
    awaited: bool


class Gone(NamedTuple):
    """A query of the session has ended; ``error``: why, if it failed."""

    run: str
    error: str | None


class Seen(NamedTuple):
    """A query of some session has started (``name`` or ``id``), or has ended."""

    run: str
    name: str
    ended: bool = False


class Ended(NamedTuple):
    """The Spark application ends."""


class Trouble(NamedTuple):
    """The backlog of a query could not be seen."""

    run: str
    error: str


GateEvent = QueryStarted | Ready | Pending | Gone | Seen | Ended | Trouble


def parsed(event: Mapping[str, Any]) -> GateEvent | None:
    """An event as the gates report it; None of one that only wakes."""
    read = _READERS.get(event["kind"])
    return None if read is None else read(event["run"], event)


def _started(run: str, event: Mapping[str, Any]) -> QueryStarted:
    return QueryStarted(
        run, event["id"], event["name"], event["class"], event["restart"], event["free"]
    )


def _ready(run: str, event: Mapping[str, Any]) -> Ready:
    if "trouble" in event:  # it could not describe itself, but it is parked
        unseen = SourceRead("unknown source", False)
        return Ready(run, event["turn"], event["due"], (unseen,))
    return Ready(
        run=run,
        turn=event["turn"],
        due_ms=event["due"],
        sources=tuple(SourceRead(**source) for source in event["sources"]),
        left=_groups(event["left"]),
        ran=event["ran"],
        ms=int(event.get("ms") or 0),
        out=max(0, int(event.get("out") or 0)),  # -1: the sink does not count
        watermark=bool(event.get("watermark")),
        timers=bool(event.get("timers")),
    )


def _groups(found: list[list[int]]) -> tuple[UnitGroup, ...]:
    return tuple(UnitGroup(*group) for group in found)


_READERS: Mapping[str, Callable[[str, Mapping[str, Any]], GateEvent]] = {
    "started": _started,
    "ready": _ready,
    "waiting": lambda run, e: Pending(run, e["turn"], _groups(e["waiting"]), e["awaited"]),
    "gone": lambda run, e: Gone(run, e["error"]),
    "seen": lambda run, e: Seen(run, e["name"] or e["id"]),
    "unseen": lambda run, _event: Seen(run, "", ended=True),
    "trouble": lambda run, e: Trouble(run, e["error"]),
    "end": lambda _run, _event: Ended(),
}


class Bridge:
    """The gates of one session. Any thread may use it; one at a time polls."""

    def __init__(self, spark: SparkSession) -> None:
        """Raises what Janino or Spark raise where an internal is not as expected."""
        context: Any = spark.sparkContext
        package = JavaPackage(context._gateway, "governed")
        package.call("Gates", "check")
        manager: Any = spark.streams._jsqm
        self._gates = package.new("Gates", manager)
        self._manager, self._context = manager, context
        manager.addListener(self._gates)
        context._jsc.sc().addSparkListener(self._gates.foreign())

    def poll(self, ms: int) -> list[GateEvent]:
        """What has happened since the last call; waits so long for the first event."""
        told = map(parsed, json.loads(self._gates.poll(ms)))
        return [event for event in told if event is not None]

    def nudge(self) -> None:
        """Ends a ``poll`` that waits."""
        self._gates.nudge()

    def grant(self, run: str, units: Sequence[int] = ()) -> bool:
        """Lets a query run one micro-batch; False if it is gone or does not wait for a grant.

        ``units``: how many files or offsets of each source it takes at most; empty: all.
        """
        return bool(self._gates.grant(run, ",".join(map(str, units))))

    def probe(self) -> None:
        """Looks at all sources; what has changed is reported by ``poll``."""
        self._gates.probe()

    def cancel(self, run: str) -> None:
        """Cancels the jobs of a query: its micro-batch fails."""
        self._context._jsc.sc().cancelJobGroup(run)

    def close(self) -> None:
        """Lets all queries run free, and removes the gates' listeners."""
        self._gates.open()
        self._manager.removeListener(self._gates)
        context = self._context._jsc
        if context is not None:  # None: the application has ended
            context.sc().removeSparkListener(self._gates.foreign())


class NoBridge(Bridge):
    """Where an internal of Spark is missing: nothing is governed, all else works."""

    def __init__(self) -> None:
        self._nudged = Event()

    def poll(self, ms: int) -> list[GateEvent]:
        self._nudged.wait(ms / 1000)
        self._nudged.clear()
        return []

    def nudge(self) -> None:
        self._nudged.set()

    def grant(self, run: str, units: Sequence[int] = ()) -> bool:
        return False

    def probe(self) -> None:
        pass

    def cancel(self, run: str) -> None:
        pass

    def close(self) -> None:
        pass
