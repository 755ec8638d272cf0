"""The receiving end of a real link: takes tuples from any number of senders over TCP.

A tuple is handed over once, then acknowledged. A sender that comes back after a broken
connection is told what has arrived, so it repeats only what has not. Whoever does not speak
the protocol is disconnected and counted.
"""

from __future__ import annotations

import json
import logging
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread

from daybreak.links.classes import MOST_CLASSES
from daybreak.links.counters import ReceiverCounters
from daybreak.links.wire import (
    HEADER_BYTES,
    MOST_PAYLOAD_BYTES,
    VERSION,
    BadFrame,
    Frame,
    Kind,
    encode,
    read_frame,
)
from daybreak.model.errors import ConfigError

log = logging.getLogger(__name__)

HELLO_WITHIN_S = 5.0
SILENT_FOR_S = 15.0
MOST_CONNECTIONS = 64
#: Sessions remembered for senders that may come back; the oldest are forgotten first.
MOST_SESSIONS = 1024
#: Names of classes counted; strangers must not fill the memory with them.
MOST_NAMES = 4096


@dataclass(frozen=True, slots=True)
class Received:
    """A tuple that came in, with its instants by this receiver's clock."""

    cls: str
    payload: bytes
    created_us: int
    deadline_us: int
    arrived_us: int

    @property
    def latency_ms(self) -> float:
        """As exact as the clocks could be compared: off by half a round trip at most."""
        return (self.arrived_us - self.created_us) / 1000

    @property
    def on_time(self) -> bool:
        return self.arrived_us <= self.deadline_us


@dataclass
class _Session:
    """A sender, over all its connections."""

    classes: tuple[str, ...]
    last: int = 0
    connection: socket.socket | None = None
    lock: Lock = field(default_factory=Lock)


class LinkReceiver:
    """Listens on ``host:port`` (port 0: any free one, see ``address``).

    ``on_tuple`` is called for every tuple, by one thread per sender; if it raises, the tuple is
    not acknowledged and the sender will send it again.
    """

    def __init__(
        self,
        host: str,
        port: int,
        on_tuple: Callable[[Received], None],
        *,
        most_payload_bytes: int = MOST_PAYLOAD_BYTES,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._on_tuple = on_tuple
        self._most_payload_bytes = most_payload_bytes
        self._clock_ns = clock_ns
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listening = socket.create_server((host, port), family=family)
        except OSError as error:
            raise ConfigError(
                "link", f"cannot listen on {host}:{port} ({error})", "choose another address"
            ) from error
        self.address: tuple[str, int] = self._listening.getsockname()[:2]
        self._changed = Condition()
        self._counters: dict[str, ReceiverCounters] = {}
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._connections: dict[socket.socket, Thread] = {}
        self._closed = False
        #: Connections ended because of garbage, and senders that said goodbye.
        self.refused = 0
        self.goodbyes = 0
        self._thread = Thread(target=self._accept, name="link-receiver", daemon=True)

    def start(self) -> LinkReceiver:
        self._thread.start()
        return self

    def __enter__(self) -> LinkReceiver:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def counters(self) -> dict[str, ReceiverCounters]:
        """A snapshot per class name."""
        with self._changed:
            return {k: ReceiverCounters(**c.as_json()) for k, c in self._counters.items()}

    def wait(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Waits until ``done()`` is true, asked after every change; false on timeout."""
        with self._changed:
            return self._changed.wait_for(done, timeout_s)

    def close(self) -> None:
        """Ends all connections; senders keep what was not acknowledged."""
        with self._changed:
            self._closed = True
            open_now = dict(self._connections)
        # A shut-down listening socket wakes accept(); a closed one alone would not.
        _shut(self._listening)
        self._listening.close()
        for connection, thread in open_now.items():
            _shut(connection)
            thread.join()
        if self._thread.is_alive():
            self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, peer = self._listening.accept()
            except OSError:
                return
            with self._changed:
                full = self._closed or len(self._connections) >= MOST_CONNECTIONS
                if not full:
                    name = f"link-from-{peer[0]}:{peer[1]}"
                    thread = Thread(target=self._serve, args=(connection,), name=name, daemon=True)
                    self._connections[connection] = thread
                    thread.start()
            if full:
                log.warning("refused %s:%d: too many connections", *peer[:2])
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            self._talk(connection)
        except BadFrame as error:
            log.warning("refused a connection: %s", error)
            with self._changed:
                self.refused += 1
        except OSError as error:
            log.info("a connection ended: %s", error)
        except Exception:
            log.exception("a tuple could not be handed over; its sender will repeat it")
        finally:
            connection.close()
            with self._changed:
                self._connections.pop(connection, None)
                self._changed.notify_all()

    def _talk(self, connection: socket.socket) -> None:
        connection.settimeout(HELLO_WITHIN_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection.makefile("rb") as stream:
            hello = read_frame(stream, self._most_payload_bytes)
            if hello is None:
                return
            session = self._welcome(connection, hello)
            connection.settimeout(SILENT_FOR_S)
            while (frame := read_frame(stream, self._most_payload_bytes)) is not None:
                if frame.kind is Kind.DATA:
                    if not self._take(session, connection, frame):
                        return
                elif frame.kind is Kind.PING:
                    pong = Frame(Kind.PONG, a_us=frame.a_us, b_us=self._clock_ns() // 1000)
                    connection.sendall(encode(pong))
                elif frame.kind is Kind.BYE:
                    with self._changed:
                        self.goodbyes += 1
                    return
                else:
                    raise BadFrame(f"a sender must not send {frame.kind.name}")

    def _welcome(self, connection: socket.socket, hello: Frame) -> _Session:
        seen_us = self._clock_ns() // 1000
        name, classes = _greeting(hello)
        with self._changed:
            session = self._sessions.setdefault(name, _Session(classes))
            self._sessions.move_to_end(name)
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
            if session.classes != classes:
                raise BadFrame("the sender came back with other classes")
            if len(self._counters.keys() | set(classes)) > MOST_NAMES:
                raise BadFrame("there are too many names of classes already")
            for cls in classes:
                self._counters.setdefault(cls, ReceiverCounters())
        with session.lock:
            # The old connection must not hand over anything after we said what has arrived.
            if session.connection is not None:
                _shut(session.connection)
            session.connection = connection
            answer = Frame(Kind.WELCOME, session.last, a_us=hello.a_us, b_us=seen_us)
            connection.sendall(encode(answer))
        return session

    def _take(self, session: _Session, connection: socket.socket, frame: Frame) -> bool:
        """Hands one tuple over; false if the sender has a newer connection by now."""
        if frame.cls >= len(session.classes):
            raise BadFrame(f"class {frame.cls} was not declared")
        arrived_us = self._clock_ns() // 1000
        cls = session.classes[frame.cls]
        item = Received(cls, frame.payload, frame.a_us, frame.b_us, arrived_us)
        with session.lock:
            if session.connection is not connection:
                return False
            fresh = frame.number > session.last
            if fresh:
                self._on_tuple(item)
                session.last = frame.number
            connection.sendall(encode(Frame(Kind.ACK, session.last)))
        with self._changed:
            counters = self._counters[cls]
            counters.bytes_received += HEADER_BYTES + len(frame.payload)
            counters.on_time += fresh and item.on_time
            counters.late += fresh and not item.on_time
            counters.duplicates += not fresh
            self._changed.notify_all()
        return True


def _greeting(hello: Frame) -> tuple[str, tuple[str, ...]]:
    """The session and the names of its classes; checked, since anybody can connect."""
    if hello.kind is not Kind.HELLO:
        raise BadFrame(f"began with {hello.kind.name}, not with HELLO")
    try:
        said = json.loads(hello.payload)
        version, session = said["version"], said["session"]
        names = tuple(cls["name"] for cls in said["classes"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFrame("its greeting cannot be read") from error
    if version != VERSION:
        raise BadFrame(f"speaks version {version!r}, not {VERSION}")
    sensible = isinstance(session, str) and 0 < len(session) <= 64
    if not sensible or not 1 <= len(names) <= MOST_CLASSES:
        raise BadFrame("its greeting makes no sense")
    if not all(isinstance(name, str) and 0 < len(name) <= 200 for name in names):
        raise BadFrame("its class names make no sense")
    return session, names


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):  # it may be gone already
        sock.shutdown(socket.SHUT_RDWR)
