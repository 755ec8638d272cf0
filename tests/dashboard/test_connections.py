"""Clients that never finish their requests, with real half-open sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from tests.dashboard.conftest import Stage
from tests.dashboard.web import ask, events, own

from daybreak.dashboard.connections import Connections
from daybreak.dashboard.server import Dashboard

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /api/command HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: 100\r\n\r\n{"
)


@pytest.fixture
def quick(stage: Stage) -> Iterator[Dashboard]:
    """A server that waits for a request for less time than a test may take."""
    with Dashboard(stage, every_s=0.05, connections=Connections(request_within_s=0.3)) as made:
        yield made


def half_open(stack: ExitStack, served: Dashboard, sent: bytes) -> socket.socket:
    sock = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=20))
    if sent:
        sock.sendall(sent)
    return sock


@pytest.mark.parametrize("sent", [b"", HALF, HALF_A_BODY], ids=["nothing", "header", "body"])
def test_half_open_requests_lock_nobody_out(served: Dashboard, sent: bytes) -> None:
    """110 of them once gave everybody a 503, for as long as they stayed open."""
    with ExitStack() as stack:
        page = stack.enter_context(events(served))
        next(page)
        for _ in range(110):
            half_open(stack, served, sent)
        assert ask(served, "GET", "/").status == 200
        assert ask(served, "GET", "/api/session").status == 200
        # A page that was open before stays open.
        next(page)


@pytest.mark.parametrize("sent", [b"", HALF], ids=["nothing", "header"])
def test_a_request_has_to_be_complete_in_time(quick: Dashboard, sent: bytes) -> None:
    with ExitStack() as stack:
        assert ends_while_dripping(half_open(stack, quick, sent))


def ends_while_dripping(sock: socket.socket) -> bool:
    """Whether the other end hangs up although bytes come all the time."""
    sock.settimeout(0.05)
    for _ in range(200):
        try:
            if sock.recv(1) == b"":
                return True
        except TimeoutError:
            with suppress(OSError):
                sock.sendall(b"x")
        except ConnectionResetError:
            return True
    return False


def test_a_body_has_to_be_complete_in_time(quick: Dashboard) -> None:
    headers = own(quick) | {"Host": f"127.0.0.1:{quick.port}", "Content-Length": "100"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with ExitStack() as stack:
        sock = half_open(stack, quick, f"POST /api/command HTTP/1.1\r\n{lines}\r\n{{".encode())
        assert sock.recv(100) == b""


def test_a_page_stays_open_for_longer_than_a_request_may_take(quick: Dashboard) -> None:
    with events(quick) as page:
        for _ in range(10):  # at 0.05 s each
            next(page)


def test_beyond_its_share_a_client_with_open_pages_is_refused(stage: Stage) -> None:
    few = Connections(most_per_client=2)
    with Dashboard(stage, every_s=0.05, connections=few) as served, ExitStack() as stack:
        pages = [stack.enter_context(events(served)) for _ in range(2)]
        for page in pages:
            next(page)
        with pytest.raises(ConnectionResetError):
            ask(served, "GET", "/")
        next(pages[0])
