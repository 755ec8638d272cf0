"""One TCP connection of a sender: handshake, clock offset, and the answers that come back."""

from __future__ import annotations

import json
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from threading import Thread
from typing import BinaryIO

from daybreak.links.frames import VERSION, BadFrame, Frame, Kind, encode, read_frame
from daybreak.links.link_classes import LinkClass

#: A receiver that neither reads nor answers for so long is gone.
DEAD_AFTER_S = 5.0


class Connection:
    """An established connection. ``broken`` turns true once, when the receiver is gone."""

    def __init__(self, sock: socket.socket, stream: BinaryIO, clock_ns: Callable[[], int]) -> None:
        self._socket = sock
        self._stream = stream
        self._clock_ns = clock_ns
        #: (round trip, receiver's clock minus ours) of the latest pings.
        self._samples: deque[tuple[int, int]] = deque(maxlen=16)
        self.broken = False
        self._listener: Thread | None = None

    @staticmethod
    def new_session() -> str:
        """Names a sender, so that a receiver knows it again after a reconnection."""
        return token_hex(8)

    @property
    def offset_us(self) -> int:
        """What to add to our clock to get the receiver's: by the quickest round trip."""
        return min(self._samples)[1]

    def send(self, frame: Frame) -> None:
        self._socket.sendall(encode(frame))

    def clock_answer(self, frame: Frame) -> None:
        """Halfway between question and answer the receiver's clock showed ``b_us``."""
        now_us = self._clock_ns() // 1000
        self._samples.append((now_us - frame.a_us, frame.b_us - (frame.a_us + now_us) // 2))

    def listen(self, on_ack: Callable[[int], None], on_broken: Callable[[], None]) -> None:
        """Reads answers in a thread of its own until the connection ends."""

        def run() -> None:
            try:
                while (frame := read_frame(self._stream)) is not None:
                    if frame.kind is Kind.ACK:
                        on_ack(frame.number)
                    elif frame.kind is Kind.PONG:
                        self.clock_answer(frame)
                    else:
                        break
            except (OSError, ValueError, BadFrame):
                pass  # as good as an end: the sender connects again
            self.broken = True
            on_broken()

        self._listener = Thread(target=run, name="link-answers", daemon=True)
        self._listener.start()

    def say_goodbye(self) -> None:
        """Ends our half and waits for the answers under way; then the receiver ends its half."""
        self.send(Frame(Kind.BYE))
        self._socket.shutdown(socket.SHUT_WR)
        if self._listener is not None:
            self._listener.join(DEAD_AFTER_S)

    def close(self) -> None:
        with suppress(OSError):  # it may be gone already
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._listener is not None:
            self._listener.join()
        self._stream.close()
        self._socket.close()


def connect(
    address: tuple[str, int],
    session: str,
    classes: Sequence[LinkClass],
    clock_ns: Callable[[], int],
) -> tuple[Connection, int]:
    """A connection after its handshake, and the last frame the receiver has of the session."""
    sock = socket.create_connection(address, timeout=DEAD_AFTER_S)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = sock.makefile("rb")
        declared = [{"name": c.name, "m": c.m, "n": c.n} for c in classes]
        hello = {"version": VERSION, "session": session, "classes": declared}
        asked_us = clock_ns() // 1000
        sock.sendall(encode(Frame(Kind.HELLO, a_us=asked_us, payload=json.dumps(hello).encode())))
        welcome = read_frame(stream)
        if welcome is None or welcome.kind is not Kind.WELCOME:
            raise BadFrame("the other end does not welcome us: is it a Daybreak receiver?")
        connection = Connection(sock, stream, clock_ns)
        connection.clock_answer(welcome)
    except BaseException:
        sock.close()
        raise
    return connection, welcome.number
