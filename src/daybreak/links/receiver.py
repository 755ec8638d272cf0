"""The receiving end of a real link: takes tuples from any number of senders over TCP.

A tuple is handed over once, then acknowledged. A sender that comes back after a broken
connection is told what has arrived, so it repeats only what has not. Whoever does not speak
the protocol is disconnected and counted.
"""

from __future__ import annotations

import io
import json
import logging
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, BinaryIO

from daybreak.links.counters import ReceiverCounters
from daybreak.links.frames import (
    HEADER_BYTES,
    MOST_PAYLOAD_BYTES,
    VERSION,
    BadFrame,
    Frame,
    Kind,
    encode,
    read_frame,
)
from daybreak.links.link_classes import MOST_CLASSES
from daybreak.links.sessions import Session, Sessions
from daybreak.model.errors import ConfigError

log = logging.getLogger(__name__)

HELLO_WITHIN_S = 5.0
SILENT_FOR_S = 15.0
MOST_CONNECTIONS = 64
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


class _Incoming(io.RawIOBase):
    """A connection's bytes: first against one deadline, then bounded in silence.

    A timeout of the socket alone would start again with every byte a stranger drips.
    """

    def __init__(self, connection: socket.socket, hello_within_s: float) -> None:
        self._connection = connection
        self._deadline_s: float | None = time.monotonic() + hello_within_s

    def greeted(self) -> None:
        self._deadline_s = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = SILENT_FOR_S
        if self._deadline_s is not None:
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("no greeting in time")
        self._connection.settimeout(left_s)
        return self._connection.recv_into(buffer)


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
        hello_within_s: float = HELLO_WITHIN_S,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._on_tuple = on_tuple
        self._most_payload_bytes = most_payload_bytes
        self._hello_within_s = hello_within_s
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
        self._sessions = Sessions()
        self._connections: dict[socket.socket, Thread] = {}
        #: Those of them that have not greeted, the oldest first; a dictionary for its order.
        self._silent: dict[socket.socket, None] = {}
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
                full = self._closed or not self._make_room()
                if not full:
                    name = f"link-from-{peer[0]}:{peer[1]}"
                    thread = Thread(target=self._serve, args=(connection,), name=name, daemon=True)
                    self._connections[connection] = thread
                    self._silent[connection] = None
                    thread.start()
            if full:
                log.warning("refused %s:%d: too many connections", *peer[:2])
                connection.close()

    def _make_room(self) -> bool:
        """Whether one more connection may come; the one silent for longest may have to go."""
        if len(self._connections) < MOST_CONNECTIONS:
            return True
        oldest = next(iter(self._silent), None)
        if oldest is None:
            return False
        del self._silent[oldest]
        _shut(oldest)  # its thread ends soon
        return True

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
                self._silent.pop(connection, None)
                self._changed.notify_all()

    def _talk(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        incoming = _Incoming(connection, self._hello_within_s)
        with io.BufferedReader(incoming) as stream:
            hello = read_frame(stream, self._most_payload_bytes)
            if hello is None:
                return
            name, classes = _greeting(hello)
            session = self._session(connection, name, classes)
            try:
                self._welcome(session, connection, hello)
                incoming.greeted()
                self._take_all(session, connection, stream)
            finally:
                # In this order: the session's lock is held while a tuple is handed over.
                with session.lock, self._changed:
                    self._sessions.disconnect(name, connection)

    def _take_all(self, session: Session, connection: socket.socket, stream: BinaryIO) -> None:
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

    def _session(self, connection: socket.socket, name: str, classes: tuple[str, ...]) -> Session:
        with self._changed:
            if len(self._counters.keys() | set(classes)) > MOST_NAMES:
                raise BadFrame("there are too many names of classes already")
            session = self._sessions.connect(name, classes, connection)
            for cls in classes:
                self._counters.setdefault(cls, ReceiverCounters())
            self._silent.pop(connection, None)
        return session

    def _welcome(self, session: Session, connection: socket.socket, hello: Frame) -> None:
        seen_us = self._clock_ns() // 1000
        with session.lock:
            # The old connection must not hand over anything after we said what has arrived.
            if session.connection is not None and session.connection is not connection:
                _shut(session.connection)
            session.connection = connection
            answer = Frame(Kind.WELCOME, session.last, a_us=hello.a_us, b_us=seen_us)
            connection.sendall(encode(answer))

    def _take(self, session: Session, connection: socket.socket, frame: Frame) -> bool:
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
