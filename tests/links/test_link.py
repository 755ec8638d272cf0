"""The real sender and receiver, over TCP on loopback."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic_ns, sleep

import pyarrow as pa
import pytest
from tests.until import until

from daybreak.links.counters import SenderCounters
from daybreak.links.frames import HEADER_BYTES, Frame, Kind, encode, read_frame
from daybreak.links.link_classes import LinkClass
from daybreak.links.link_sink import LinkSink
from daybreak.links.receiver import MOST_NAMES, LinkReceiver, Received
from daybreak.links.registry import SCHEDULERS
from daybreak.links.sender import LinkSender, parse_address
from daybreak.model import ConfigError

PATIENT = (
    LinkClass(name="high", value=2, deadline_s=60, m=6, n=10, rate_per_s=10),
    LinkClass(name="low", value=1, deadline_s=60, m=6, n=10, rate_per_s=10),
)
HASTY = (
    LinkClass(name="high", value=2, deadline_s=0.14, m=6, n=10, rate_per_s=10),
    LinkClass(name="low", value=1, deadline_s=0.2, m=6, n=10, rate_per_s=10),
)


def accounted(counters: dict[str, SenderCounters]) -> None:
    for c in counters.values():
        assert c.arrived == c.delivered + c.expired + c.evicted + c.queued + c.in_flight
        assert min(c.delivered, c.expired, c.evicted, c.queued, c.in_flight) >= 0


class Inbox:
    """What a receiver handed over."""

    def __init__(self) -> None:
        self.items: list[Received] = []

    def __call__(self, item: Received) -> None:
        self.items.append(item)

    def texts(self) -> list[str]:
        return [item.payload.decode() for item in self.items]


class Proxy:
    """Stands between sender and receiver and can cut every connection."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        self._open: list[socket.socket] = []
        self._threads = [Thread(target=self._accept)]
        self._threads[0].start()

    def cut(self) -> None:
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listening.close()
        self.cut()
        for thread in self._threads[1:]:
            thread.join()
        for sock in self._open:
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for pair in ((near, far), (far, near)):
                thread = Thread(target=self._copy, args=pair)
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data)
        for sock in (source, target):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@contextmanager
def proxied(target: tuple[str, int]) -> Iterator[Proxy]:
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_with_ample_bandwidth_everything_arrives_once_and_in_time(scheduler: str) -> None:
    inbox = Inbox()
    with LinkReceiver("127.0.0.1", 0, inbox) as receiver:
        with LinkSender(receiver.address, PATIENT, 1e6, scheduler) as sender:
            for i in range(60):
                sender.offer(("high", "low")[i % 2], f"tuple {i}".encode())
        counters = sender.counters()
        assert [c.delivered for c in counters.values()] == [30, 30]
        accounted(counters)
        until(lambda: receiver.goodbyes == 1)
    assert Counter(inbox.texts()) == Counter(f"tuple {i}" for i in range(60))
    assert all(item.on_time for item in inbox.items)
    assert [c.on_time for c in receiver.counters().values()] == [30, 30]


@pytest.mark.slow
def test_a_narrow_link_sends_only_what_is_in_time_and_keeps_its_bandwidth() -> None:
    inbox = Inbox()
    bandwidth = 20_000
    with LinkReceiver("127.0.0.1", 0, inbox) as receiver:
        began_ns = monotonic_ns()
        with LinkSender(receiver.address, HASTY, bandwidth, "due") as sender:
            for _ in range(100):  # 4 times what fits
                for name in ("high", "low"):
                    sender.offer(name, bytes(500 - HEADER_BYTES))
                sleep(0.0125)  # the load: 80 pairs per second
        took_s = (monotonic_ns() - began_ns) / 1e9
    counters = sender.counters()
    accounted(counters)
    assert sum(c.expired for c in counters.values()) > 0
    assert all(c.queued == c.in_flight == 0 for c in counters.values())
    sent = sum(c.bytes_sent for c in counters.values())
    assert sent <= bandwidth * (took_s + 0.05) + 500
    assert counters["high"].delivered > counters["low"].delivered


@pytest.mark.slow
def test_a_receiver_that_goes_away_and_comes_back_gets_all_that_is_still_due() -> None:
    first, second = Inbox(), Inbox()
    receiver = LinkReceiver("127.0.0.1", 0, first).start()
    address = receiver.address
    with LinkSender(address, PATIENT, 50_000, "due") as sender:
        for i in range(200):
            sender.offer(("high", "low")[i % 2], f"{i:04}".encode() + bytes(400))
        until(lambda: len(first.items) >= 20)
        receiver.close()
        until(lambda: sum(c.queued for c in sender.counters().values()) > 0)
        with LinkReceiver(*address, second) as again:
            until(lambda: sum(c.delivered for c in sender.counters().values()) == 200)
            assert again.refused == 0
        counters = sender.counters()
    accounted(counters)
    assert sender.reconnects == 1
    assert sum(c.expired + c.evicted for c in counters.values()) == 0
    got = {text[:4] for text in [*first.texts(), *second.texts()]}
    assert got == {f"{i:04}" for i in range(200)}


@pytest.mark.slow
def test_cut_connections_lose_nothing_and_repeat_nothing() -> None:
    inbox = Inbox()
    with (
        LinkReceiver("127.0.0.1", 0, inbox) as receiver,
        proxied(receiver.address) as proxy,
        LinkSender(proxy.address, PATIENT, 100_000, "min-slack") as sender,
    ):
        for i in range(300):
            sender.offer(("high", "low")[i % 2], f"{i:04}".encode() + bytes(300))
        for reached in (50, 100, 150, 200):
            until(lambda reached=reached: len(inbox.items) >= reached)  # type: ignore[misc]
            proxy.cut()
        until(lambda: sum(c.delivered for c in sender.counters().values()) == 300)
        accounted(sender.counters())
        assert sender.reconnects >= 1
    assert Counter(text[:4] for text in inbox.texts()) == Counter(f"{i:04}" for i in range(300))


def test_without_a_receiver_tuples_expire_and_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    sender = LinkSender(address, HASTY, 50_000, "due").start()
    for _ in range(50):
        sender.offer("high", b"x")
    until(lambda: sender.counters()["high"].expired == 50)
    accounted(sender.counters())
    sender.close()
    with pytest.raises(ConfigError, match="closed"):
        sender.offer("high", b"x")


def hello(**changes: object) -> bytes:
    said = {"version": 1, "session": "s", "classes": [{"name": "a"}], **changes}
    return encode(Frame(Kind.HELLO, payload=json.dumps(said).encode()))


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(100),
        bytes(200),
        encode(Frame(Kind.DATA, 1)),
        encode(Frame(Kind.HELLO, payload=b"not json")),
        encode(Frame(Kind.HELLO, payload=b"[" * 100_000)),
        hello(version=2),
        hello(session=""),
        hello(classes=[]),
        hello(classes=[{"name": 7}]),
        hello() + encode(Frame(Kind.DATA, 1, cls=1)),
        hello() + encode(Frame(Kind.ACK, 1)),
        hello() + b"DL garbage" + bytes(100),
        hello() + encode(Frame(Kind.DATA, 1, payload=bytes(5000))),
    ],
)
def test_garbage_is_refused_and_others_are_served_on(garbage: bytes) -> None:
    inbox = Inbox()
    with LinkReceiver("127.0.0.1", 0, inbox, most_payload_bytes=1 << 17) as receiver:
        limited = LinkReceiver("127.0.0.1", 0, inbox, most_payload_bytes=4000)
        with limited, socket.create_connection(limited.address) as stranger:
            with suppress(OSError):  # it may already have hung up on us
                stranger.sendall(garbage)
            until(lambda: limited.refused == 1)
            stranger.settimeout(10)
            with suppress(ConnectionResetError):
                while stranger.recv(4096):
                    pass
        with LinkSender(receiver.address, PATIENT, 1e6) as sender:
            sender.offer("high", b"good")
    assert inbox.texts() == ["good"]


def test_a_stranger_that_says_nothing_holds_up_nobody() -> None:
    inbox = Inbox()
    with (
        LinkReceiver("127.0.0.1", 0, inbox) as receiver,
        socket.create_connection(receiver.address),
    ):
        with LinkSender(receiver.address, PATIENT, 1e6) as sender:
            sender.offer("low", b"good")
        assert inbox.texts() == ["good"]


def test_strangers_cannot_fill_the_memory_with_names() -> None:
    with LinkReceiver("127.0.0.1", 0, Inbox()) as receiver:
        for i in range(MOST_NAMES // 200 + 1):
            names = [{"name": f"{i}/{k}"} for k in range(200)]
            with socket.create_connection(receiver.address) as sock, sock.makefile("rb") as stream:
                sock.sendall(hello(session=str(i), classes=names))
                with suppress(ConnectionResetError):
                    stream.read(1)
        until(lambda: receiver.refused == 1)
        assert len(receiver.counters()) <= MOST_NAMES


def test_a_returning_sender_is_told_what_has_arrived() -> None:
    inbox = Inbox()
    with LinkReceiver("127.0.0.1", 0, inbox) as receiver:
        for attempt in (1, 2):
            with socket.create_connection(receiver.address) as sock, sock.makefile("rb") as stream:
                sock.sendall(hello())
                welcome = read_frame(stream)
                assert welcome is not None
                assert welcome.number == (0, 1)[attempt - 1]
                sock.sendall(encode(Frame(Kind.DATA, 1, payload=b"one")))
                answer = read_frame(stream)
                assert answer is not None
                assert (answer.kind, answer.number) == (Kind.ACK, 1)
        until(lambda: receiver.counters()["a"].duplicates == 1)
    assert inbox.texts() == ["one"]


def test_what_the_application_refuses_is_sent_again() -> None:
    refused = Event()
    inbox = Inbox()

    def moody(item: Received) -> None:
        if not refused.is_set():
            refused.set()
            raise RuntimeError("not now")
        inbox(item)

    with (
        LinkReceiver("127.0.0.1", 0, moody) as receiver,
        LinkSender(receiver.address, PATIENT, 1e6) as sender,
    ):
        sender.offer("high", b"again")
        until(lambda: sender.counters()["high"].delivered == 1)
    assert inbox.texts() == ["again"]


def test_a_sender_refuses_what_it_cannot_send() -> None:
    sender = LinkSender(("127.0.0.1", 1), PATIENT, 1e6)
    with pytest.raises(ConfigError, match="did you mean 'high'"):
        sender.offer("hihg", b"x")
    with pytest.raises(ConfigError, match="at most"):
        sender.offer("high", bytes(2 << 20))


def test_results_of_queries_reach_a_subscriber_in_the_class_of_their_query() -> None:
    inbox = Inbox()
    with LinkReceiver("127.0.0.1", 0, inbox) as receiver:
        with LinkSender(receiver.address, PATIENT, 1e6) as sender:
            sink = LinkSink(sender, {"fires": "high", "averages": "low"})
            assert sink.write("fires", [{"id": 7, "temp": 90.5}, {"id": 8, "temp": 99.0}]) == 2
            assert sink.write("averages", [{"mean": 20.25}], monotonic_ns()) == 1
        assert {k: c.delivered for k, c in sink.counters().items()} == {"high": 2, "low": 1}
    got = [(item.cls, json.loads(item.payload)) for item in inbox.items]
    assert sorted(got, key=str) == [
        ("high", {"query": "fires", "row": {"id": 7, "temp": 90.5}}),
        ("high", {"query": "fires", "row": {"id": 8, "temp": 99.0}}),
        ("low", {"query": "averages", "row": {"mean": 20.25}}),
    ]
    with pytest.raises(ConfigError, match="'fires'"):
        sink.write("fire", [])
    with pytest.raises(ConfigError, match="not declared"):
        LinkSink(sender, {"fires": "highest"})


def test_a_sink_takes_the_tables_of_an_engine_with_their_key() -> None:
    inbox = Inbox()
    with (
        LinkReceiver("127.0.0.1", 0, inbox) as receiver,
        LinkSender(receiver.address, PATIENT, 1e6) as sender,
    ):
        fires = LinkSink(sender, {"fires": "high"}).of("fires")
        assert fires(pa.table({"id": [7, 8], "temp": [90.5, None]}), "job-1") == 2
    assert [json.loads(item.payload) for item in inbox.items] == [
        {"query": "fires", "key": "job-1", "row": {"id": 7, "temp": 90.5}},
        {"query": "fires", "key": "job-1", "row": {"id": 8, "temp": None}},
    ]
    with pytest.raises(ConfigError, match="no link class"):
        LinkSink(sender, {"fires": "high"}).of("floods")


def test_addresses() -> None:
    assert parse_address("localhost:80", "--to") == ("localhost", 80)
    assert parse_address("[::1]:80", "--to") == ("::1", 80)
    for wrong in ("localhost", ":80", "localhost:http", "localhost:99999"):
        with pytest.raises(ConfigError, match="not HOST:PORT"):
            parse_address(wrong, "--to")
    with (
        LinkReceiver("127.0.0.1", 0, Inbox()) as receiver,
        pytest.raises(ConfigError, match="cannot listen"),
    ):
        LinkReceiver(*receiver.address, Inbox())
