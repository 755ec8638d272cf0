"""Strangers neither make a receiver forget a sender nor keep newcomers out."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, suppress

from tests.links.test_link import PATIENT, Inbox, hello
from tests.until import until

from daybreak.links.frames import Frame, Kind, encode, read_frame
from daybreak.links.receiver import MOST_CONNECTIONS, LinkReceiver
from daybreak.links.sender import LinkSender
from daybreak.links.sessions import MOST_SESSIONS, Sessions


def deliver(receiver: LinkReceiver, session: str, number: int, text: bytes) -> int:
    """Connects, delivers one tuple and leaves; the number that the receiver had before."""
    with socket.create_connection(receiver.address) as sock, sock.makefile("rb") as stream:
        sock.sendall(hello(session=session))
        welcome = read_frame(stream)
        assert welcome is not None
        sock.sendall(encode(Frame(Kind.DATA, number, payload=text)))
        assert read_frame(stream) is not None
        return welcome.number


def test_other_sessions_do_not_evict_a_connected_one() -> None:
    """Forgotten while it was connected, it sent its tuples a second time after a reconnection."""
    inbox = Inbox()
    with LinkReceiver("127.0.0.1", 0, inbox) as receiver:
        with socket.create_connection(receiver.address) as sock, sock.makefile("rb") as stream:
            sock.sendall(hello(session="connected") + encode(Frame(Kind.DATA, 1, payload=b"one")))
            assert read_frame(stream) is not None  # WELCOME
            assert read_frame(stream) is not None  # ACK
            for k in range(MOST_SESSIONS + 1):
                deliver(receiver, f"other {k}", 1, b"other")
        assert deliver(receiver, "connected", 1, b"one") == 1
    assert inbox.texts().count("one") == 1


def test_sessions_that_delivered_nothing_are_forgotten_first() -> None:
    sessions = Sessions(most=3)
    with socket.socket() as one, socket.socket() as other:
        kept = sessions.connect("kept", ("a",), one)
        kept.last = 7
        sessions.disconnect("kept", one)
        for k in range(10):
            sessions.connect(f"empty {k}", ("a",), other)
            sessions.disconnect(f"empty {k}", other)
        assert len(sessions) == 3
        assert sessions.connect("kept", ("a",), one).last == 7


def test_silent_connections_do_not_keep_newcomers_out() -> None:
    inbox = Inbox()
    with LinkReceiver("127.0.0.1", 0, inbox) as receiver, ExitStack() as stack:
        first = stack.enter_context(LinkSender(receiver.address, PATIENT, 1e6))
        first.offer("high", b"first")
        until(lambda: first.counters()["high"].delivered == 1)
        for _ in range(2 * MOST_CONNECTIONS):
            stack.enter_context(socket.create_connection(receiver.address))
        with socket.create_connection(receiver.address, timeout=20) as sock:
            sock.sendall(hello())
            with sock.makefile("rb") as stream:
                welcome = read_frame(stream)
        assert welcome is not None
        assert welcome.kind is Kind.WELCOME
        # Who had greeted keeps its connection.
        first.offer("high", b"second")
        until(lambda: first.counters()["high"].delivered == 2)
    assert inbox.texts() == ["first", "second"]


def test_a_greeting_has_to_be_complete_in_time() -> None:
    """Also if its bytes drip, each within the timeout of a socket."""
    greeting = encode(Frame(Kind.HELLO, payload=json.dumps({"session": "x" * 4000}).encode()))
    with LinkReceiver("127.0.0.1", 0, Inbox(), hello_within_s=0.2) as receiver:
        with socket.create_connection(receiver.address) as sock:
            sock.settimeout(0.02)
            sent = 0
            ended = False
            while sent < len(greeting) and not ended:
                try:
                    ended = sock.recv(1) == b""
                except TimeoutError:
                    with suppress(OSError):
                        sock.sendall(greeting[sent : sent + 1])
                    sent += 1
                except ConnectionResetError:
                    ended = True
        assert ended
