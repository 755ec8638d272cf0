"""No answer, no URL and no file ends the keeper, fills its memory or holds up other hosts."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import ExitStack
from email.message import Message
from pathlib import Path
from threading import Event

import pytest
from tests.freshness.keep.servers import Answer, Pages, http_server, raw_server
from tests.freshness.keep.test_keeper import MIRROR, Run, config_file, http_source

from daybreak.freshness.keep import Fetchers, MirrorKeeper, Store, make_sources, read_config
from daybreak.freshness.keep.http_source import MOST_RETRY_AFTER_S, Address, retry_after_s
from daybreak.model import ConfigError

pytestmark = pytest.mark.slow

#: Answers that once ended the keeper, and again at every start; with the reason recorded now.
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def fixed(answer: bytes) -> Answer:
    return lambda connection: connection.sendall(answer)


def status_503(retry_after: bytes) -> Answer:
    return fixed(b"HTTP/1.1 503 No\r\nRetry-After: " + retry_after + b"\r\n\r\n")


HOSTILE: dict[str, Answer] = {
    "/superscript": status_503(b"\xb2"),
    "/date-0000": status_503(b"Mon, 16 Nov 2026 03:00:00 -0000"),
    "/year-99999": status_503(b"Mon, 16 Nov 99999 03:00:00 GMT"),
    "/month-13": status_503(b"Mon, 16 Foo 2026 03:00:00 GMT"),
    "/digits": status_503(b"9" * 400),
    "/more-digits": status_503(b"9" * 5000),
    "/status": fixed(b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n"),
    "/no-http": fixed(b"\x00\xff" * 100 + b"\r\n\r\n"),
    "/long-header": fixed(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"),
    "/many-headers": fixed(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1000 + b"\r\n"),
    "/bad-chunk": fixed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n"),
    "/cut": fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok"),
    "/moved": fixed(b"HTTP/1.1 301 M\r\nLocation: http://a:pw@x/\x1b[2J\r\n\r\n"),
    "/nothing": fixed(b""),
}


def once(path: Path) -> dict[str, tuple[int, str]]:
    """Every object visited at least once: failures and reason by path."""
    with Run(path) as run:
        run.until(1200)
        return {row.name: (row.failures, row.why) for row in run.store.rows()}


def test_no_answer_ends_the_keeper_now_or_at_the_next_start(tmp_path: Path) -> None:
    # Each object on a host of its own: a Retry-After holds for the whole host.
    with ExitStack() as stack:
        good = stack.enter_context(raw_server({"/good": fixed(GOOD)})) + "/good"
        urls = [good] + [
            stack.enter_context(raw_server({name: answer})) + name
            for name, answer in HOSTILE.items()
        ]
        path = config_file(tmp_path, http_source(urls))
        found = once(path)
        with Run(path, now_s=1300) as again:
            again.until(1340)
            assert again.store.content("web", good) == b"ok"
    assert found[good] == (0, found[good][1])
    for url in urls[1:]:
        failures, why = found[url]
        assert failures >= 1, url
        assert "retried in" in why
        assert why.isprintable()
        assert "pw@" not in why


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("60", 60.0),
        ("²", None),
        ("-5", None),
        ("soon", None),
        ("9" * 400, MOST_RETRY_AFTER_S),
        ("9" * 5000, MOST_RETRY_AFTER_S),
        ("Mon, 16 Nov 2026 03:01:00 GMT", 60.0),
        ("Mon, 16 Nov 2026 03:01:00 -0000", 60.0),
        ("Mon, 16 Nov 2026 02:00:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", MOST_RETRY_AFTER_S),
    ],
)
def test_retry_after_is_understood_or_ignored(header: str, seconds: float | None) -> None:
    headers = Message()
    headers["Retry-After"] = header
    headers["Date"] = "Mon, 16 Nov 2026 03:00:00 GMT"
    assert retry_after_s(headers) == seconds


def test_a_url_with_other_letters_is_asked_for_in_ascii(tmp_path: Path) -> None:
    pages = Pages(content={"/caf%C3%A9%20bar?q=%C3%A9&r=%20": b"found"})
    with http_server(pages) as site:
        url = f"{site}/café bar?q=é&r=%20"
        with Run(config_file(tmp_path, http_source([url]))) as run:
            run.until(1010)
            assert run.store.content("web", url) == b"found"
    assert Address.of("http://bücher.example/").netloc == "xn--bcher-kva.example"


@pytest.mark.parametrize(
    ("url", "finding"),
    [
        ("http://host:port/x", "port is not a number"),
        ("http://host:99999/x", "port is not a number"),
        ("http://host:0/x", "port is not a number"),
        ("http://ann:pw/d@host/x", "port is not a number"),
        ("http://[::1/x", "Invalid IPv6 URL"),
        ("http://a..b/x", "host name is not valid"),
        ("http://host/\r\nX: y", "control characters"),
        ("ftp://host/x", "no http or https URL"),
    ],
)
def test_a_url_that_cannot_be_asked_for_is_refused_at_the_start(
    tmp_path: Path, url: str, finding: str
) -> None:
    path = config_file(tmp_path, http_source([url]))
    with pytest.raises(ConfigError, match=finding) as refused:
        make_sources(read_config(path))
    assert "pw" not in str(refused.value)


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def endless_chunk(connection: socket.socket) -> None:
    """A chunk of -1 bytes makes ``http.client`` read until the end."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n")
    while True:
        connection.sendall(b"x" * 65536)


def test_a_body_is_read_up_to_max_bytes(tmp_path: Path) -> None:
    answers: dict[str, Answer] = {
        "/announced": fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 600000000\r\n\r\n"),
        "/endless": endless,
        "/chunk": endless_chunk,
        "/fits": fixed(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000),
    }
    with raw_server(answers) as site:
        urls = [site + name for name in answers]
        with Run(config_file(tmp_path, http_source(urls), MIRROR + "max_bytes = 1000\n")) as run:
            run.until(1015)
            why = {row.name.removeprefix(site): row.why for row in run.store.rows()}
            assert len(run.store.content("web", f"{site}/fits") or b"") == 1000
    assert "announces 600000000 bytes, more than max_bytes = 1000" in why["/announced"]
    assert "sends more than max_bytes = 1000" in why["/endless"]
    assert "sends more than max_bytes" in why["/chunk"]


def test_a_long_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "long").write_bytes(b"x" * 1001)
    (tmp_path / "docs" / os.fsdecode(b"caf\xe9")).write_bytes(b"latin")
    source = '[sources.docs]\nkind = "files"\npath = "docs"\n'
    with Run(config_file(tmp_path, source, MIRROR + "max_bytes = 1000\n")) as run:
        run.until(1010)
        assert "longer than max_bytes" in next(r.why for r in run.store.rows() if r.failures)
        # A name that is no UTF-8 once ended the keeper.
        assert run.store.content("docs", "caf\\udce9") == b"latin"


@pytest.mark.slow
def test_a_dripping_server_is_left_after_timeout_s_and_delays_nobody(tmp_path: Path) -> None:
    """In real time, with threads: the slow host's request ends, and others never waited."""
    hung_up = Event()

    def drip(connection: socket.socket) -> None:
        try:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(3000):
                connection.sendall(b"x")
                time.sleep(0.01)
        except OSError:
            hung_up.set()

    pages = Pages(content={f"/{k}": b"x" for k in range(5)})
    mirror = (
        "[mirror]\nperiod_s = 1\nbandwidth = 200\nreplan_s = 60\nhost_gap_s = 0\ntimeout_s = 1.5\n"
    )
    with raw_server({"/drip": drip}) as slow, http_server(pages) as quick:
        urls = [f"{slow}/drip", *(f"{quick}/{k}" for k in range(5))]
        config = read_config(config_file(tmp_path, http_source(urls), mirror))
        keeper = MirrorKeeper(config, Store(config.path("mirror.db")), make_sources(config))
        fetchers = Fetchers(keeper, time.time)
        outcomes: list[str] = []

        def seen(outcome: str) -> None:
            outcomes.append(outcome)
            if "/drip" in outcome:
                fetchers.stop()

        fetchers.run(time.time() + 30, seen)
        keeper.close()
        assert hung_up.wait(10)
    assert outcomes[-1].endswith("no complete answer within 1.5 s")
    copied = {o.split(": ")[0] for o in outcomes if "changed" in o}
    assert copied == {f"{quick}/{k}" for k in range(5)}


def test_a_host_has_one_request_at_a_time(tmp_path: Path) -> None:
    at_once: list[int] = []
    active = 0

    def slow(connection: socket.socket) -> None:
        nonlocal active
        active += 1
        at_once.append(active)
        time.sleep(0.05)
        active -= 1
        connection.sendall(GOOD)

    mirror = "[mirror]\nperiod_s = 1\nbandwidth = 200\nreplan_s = 60\nhost_gap_s = 0\n"
    with raw_server({f"/{k}": slow for k in range(4)}) as site:
        urls = [f"{site}/{k}" for k in range(4)]
        config = read_config(config_file(tmp_path, http_source(urls), mirror))
        keeper = MirrorKeeper(config, Store(config.path("mirror.db")), make_sources(config))
        fetchers = Fetchers(keeper, time.time)
        outcomes: list[str] = []

        def seen(outcome: str) -> None:
            outcomes.append(outcome)
            if len(outcomes) == 6:
                fetchers.stop()

        fetchers.run(time.time() + 30, seen)
        keeper.close()
    assert set(at_once) == {1}


@pytest.mark.parametrize(
    ("line", "finding"),
    [
        ("max_bytes = 0", "max_bytes is 0"),
        ("max_bytes = 10000000000", "max_bytes is 10000000000"),
        ("timeout_s = 1e9", "timeout_s is 1000000000.0"),
        ("parallel_hosts = 0", "parallel_hosts is 0"),
    ],
)
def test_limits_that_make_no_sense_are_refused(tmp_path: Path, line: str, finding: str) -> None:
    source = f'[sources.a]\nkind = "http"\nurls = {json.dumps(["http://x"])}\n'
    with pytest.raises(ConfigError, match=finding):
        read_config(config_file(tmp_path, source, f"{MIRROR}{line}\n"))
