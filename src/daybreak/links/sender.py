"""The sending end of a real link: a scheduler, a token bucket and a TCP connection.

Tuples are handed in from any thread; one thread of its own decides and sends. What the
receiver has not acknowledged when a connection breaks goes back to the scheduler, so nothing
that is still due gets lost; what expires meanwhile is counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import Any

from daybreak.links.bucket import TokenBucket
from daybreak.links.connection import Connection, connect
from daybreak.links.counters import SenderCounters
from daybreak.links.frames import HEADER_BYTES, MOST_PAYLOAD_BYTES, BadFrame, Frame, Kind
from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple, Marks, is_mandatory
from daybreak.links.registry import make_scheduler
from daybreak.links.scheduler import DropReason
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.qos import NS_PER_S

log = logging.getLogger(__name__)

PING_EVERY_NS = NS_PER_S
RETRY_FIRST_S, RETRY_MOST_S = 0.05, 2.0


class LinkSender:
    """Sends tuples of several classes over a link of limited bandwidth.

    Use it as a context manager, or call ``start`` and ``close``. ``offer`` never blocks on the
    network.
    """

    def __init__(
        self,
        address: tuple[str, int],
        classes: Sequence[LinkClass],
        bandwidth_bytes_per_s: float,
        scheduler: str = "due",
        *,
        params: Mapping[str, Any] | None = None,
        marks: Marks = "last",
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._address = address
        self._scheduler = make_scheduler(scheduler, classes, bandwidth_bytes_per_s, params)
        self.classes = self._scheduler.classes
        self._rank = {c.name: i for i, c in enumerate(self.classes)}
        self._marks: Marks = marks
        self._clock_ns = clock_ns
        self._bucket = TokenBucket(bandwidth_bytes_per_s, clock_ns())
        # More than this unacknowledged means that the network is slower than it was said to
        # be: tuples are then better off in the queue, where they can still be overtaken.
        self._window_bytes = max(bandwidth_bytes_per_s, 65_536.0)
        self._counters = [SenderCounters() for _ in self.classes]
        self._wake = Condition()
        self._thread = Thread(target=self._run, name="link-sender", daemon=True)
        self._session = Connection.new_session()
        self._number = 0
        #: Frame number -> tuple, in order of sending.
        self._unacknowledged: dict[int, LinkTuple] = {}
        self._in_flight_bytes = 0
        self._idle = False
        self._stopping = self._draining = False
        self._connections = 0

    def start(self) -> LinkSender:
        self._thread.start()
        return self

    def __enter__(self) -> LinkSender:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def offer(self, cls: str, payload: bytes, created_ns: int | None = None) -> None:
        """Hands a tuple in. ``created_ns`` is by this sender's clock; now if left out."""
        rank = self._rank.get(cls)
        if rank is None:
            raise ConfigError("link", f"class {cls!r} is not declared", suggestion(cls, self._rank))
        if len(payload) > MOST_PAYLOAD_BYTES:
            raise ConfigError(
                f"link class {cls!r}",
                f"a tuple of {len(payload)} bytes",
                f"send at most {MOST_PAYLOAD_BYTES}",
            )
        with self._wake:
            if self._stopping or self._draining:
                raise ConfigError("link", "the sender is closed", "offer before closing")
            now = self._clock_ns()
            created = now if created_ns is None else created_ns
            counters, needs = self._counters[rank], self.classes[rank]
            number = counters.arrived
            counters.arrived += 1
            counters.queued += 1
            item = LinkTuple(
                rank,
                number,
                now,
                created + needs.deadline_ns,
                HEADER_BYTES + len(payload),
                is_mandatory(number, needs, self._marks),
                created,
                payload,
            )
            if self._idle:
                self._bucket.idle(now)
                self._wake.notify()
            self._scheduler.arrive(item, max(now, self._bucket.free_ns))
            self._count_drops()

    @property
    def connected(self) -> bool:
        """Whether a receiver has ever answered."""
        return self._connections > 0

    @property
    def reconnects(self) -> int:
        return max(0, self._connections - 1)

    def counters(self) -> dict[str, SenderCounters]:
        """A snapshot per class."""
        with self._wake:
            return {
                c.name: SenderCounters(**n.as_json())
                for c, n in zip(self.classes, self._counters, strict=True)
            }

    def close(self, *, drain_s: float = 10.0) -> None:
        """Sends what is still due, for at most ``drain_s`` seconds, says goodbye and ends.

        What was neither sent nor dropped by then stays counted as queued or in flight.
        """
        with self._wake:
            self._draining = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(drain_s)
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    # Everything below runs in the sender's own thread.

    def _run(self) -> None:
        retry_s = RETRY_FIRST_S
        while not self._ended():
            try:
                connection, last = connect(
                    self._address, self._session, self.classes, self._clock_ns
                )
            except (OSError, BadFrame) as error:
                log.info("no connection to %s:%d: %s", *self._address, error)
                self._wait_to_retry(retry_s)
                retry_s = min(2 * retry_s, RETRY_MOST_S)
                continue
            retry_s = RETRY_FIRST_S
            try:
                self._take_up(last)
                connection.listen(self._on_ack, self._on_broken)
                self._transmit(connection)
            except OSError as error:
                log.info("connection to %s:%d lost: %s", *self._address, error)
            finally:
                connection.close()

    def _ended(self) -> bool:
        with self._wake:
            return self._stopping or (self._draining and self._all_counted())

    def _all_counted(self) -> bool:
        return all(c.queued == c.in_flight == 0 for c in self._counters)

    def _wait_to_retry(self, retry_s: float) -> None:
        with self._wake:
            # Nobody picks while there is no connection: without this the queues would grow.
            self._scheduler.expire(self._clock_ns())
            self._count_drops()
            if not self._stopping:
                self._wake.wait(retry_s)

    def _take_up(self, last: int) -> None:
        """Settles what the old connection left open: it arrived, or it is sent again."""
        with self._wake:
            self._connections += 1
            self._settle(last)
            back = list(self._unacknowledged.values())
            self._unacknowledged.clear()
            self._in_flight_bytes = 0
            for item in back:
                counters = self._counters[item.cls]
                counters.in_flight -= 1
                counters.queued += 1
                counters.returned += 1
            self._bucket.idle(self._clock_ns())
            self._scheduler.give_back(back, self._clock_ns())
            self._count_drops()

    def _transmit(self, connection: Connection) -> None:
        """Sends until the connection breaks or everything is done."""
        ping_ns = self._clock_ns() + PING_EVERY_NS
        while True:
            now = self._clock_ns()
            if now >= ping_ns:
                connection.send(Frame(Kind.PING, a_us=now // 1000))
                ping_ns = now + PING_EVERY_NS
            with self._wake:
                if connection.broken:
                    raise ConnectionError("the receiver is gone")
                if self._stopping or (self._draining and self._all_counted()):
                    break
                frame = self._next_frame(self._clock_ns(), connection.offset_us)
                if frame is None:
                    until_ns = ping_ns if self._idle else min(ping_ns, self._bucket.free_ns)
                    self._wake.wait(max(0, until_ns - self._clock_ns()) / NS_PER_S)
                    continue
            connection.send(frame)
        connection.say_goodbye()

    def _next_frame(self, now_ns: int, offset_us: int) -> Frame | None:
        """What to send now; None while the link is busy or has nothing to do."""
        self._idle = False
        if now_ns < self._bucket.free_ns:
            return None
        full = self._in_flight_bytes >= self._window_bytes
        item = None if full else self._scheduler.pick(now_ns)
        self._count_drops()
        if item is None:
            self._idle = True
            return None
        self._bucket.take(item.size_bytes, now_ns)
        self._number += 1
        self._unacknowledged[self._number] = item
        self._in_flight_bytes += item.size_bytes
        counters = self._counters[item.cls]
        counters.queued -= 1
        counters.in_flight += 1
        counters.bytes_sent += item.size_bytes
        return Frame(
            Kind.DATA,
            self._number,
            item.cls,
            item.created_ns // 1000 + offset_us,
            item.deadline_ns // 1000 + offset_us,
            item.payload,
        )

    def _count_drops(self) -> None:
        for item, why in self._scheduler.dropped:
            counters = self._counters[item.cls]
            counters.queued -= 1
            if why is DropReason.EXPIRED:
                counters.expired += 1
            else:
                counters.evicted += 1
        self._scheduler.dropped.clear()

    # The connection's listening thread calls these.

    def _on_ack(self, number: int) -> None:
        with self._wake:
            full = self._in_flight_bytes >= self._window_bytes
            self._settle(number)
            if full or self._draining:
                self._wake.notify()

    def _on_broken(self) -> None:
        with self._wake:
            self._wake.notify()

    def _settle(self, number: int) -> None:
        """Everything up to this frame has arrived."""
        while self._unacknowledged:
            oldest = next(iter(self._unacknowledged))
            if oldest > number:
                return
            item = self._unacknowledged.pop(oldest)
            self._in_flight_bytes -= item.size_bytes
            self._counters[item.cls].in_flight -= 1
            self._counters[item.cls].delivered += 1


def parse_address(text: str, place: str) -> tuple[str, int]:
    """``HOST:PORT``, also ``[::1]:7070``."""
    host, colon, port = text.rpartition(":")
    if not host.strip("[]") or not colon or not port.isdecimal() or int(port) > 65_535:
        raise ConfigError(place, f"{text!r} is not HOST:PORT", "write, say, 127.0.0.1:7070")
    return host.strip("[]"), int(port)
