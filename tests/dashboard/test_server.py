"""What the server gives and what it streams; no Spark."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.dashboard.conftest import NASTY, Stage
from tests.dashboard.web import ask, events, own
from tests.until import until

from daybreak.dashboard.hub import MOST_PAGES
from daybreak.dashboard.metrics import CONTENT_TYPE
from daybreak.dashboard.server import ASSETS, Dashboard
from daybreak.dashboard.source import RunFolder
from daybreak.model import ConfigError
from daybreak.runtime.recorded import snapshot_of_record
from daybreak.runtime.snapshot import Snapshot


def test_the_page_is_whole_and_weighs_less_than_400_kilobytes(served: Dashboard) -> None:
    page = ask(served, "GET", "/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    weight = len(page.body)
    for name in ASSETS:
        if name != "index.html":
            asset = ask(served, "GET", f"/static/{name}")
            assert (asset.status, asset.headers["content-type"]) == (200, ASSETS[name])
            weight += len(asset.body)
    assert weight < 400_000
    assert b"http://" not in page.body
    assert b"https://" not in page.body


def test_nothing_in_the_page_comes_from_elsewhere_or_writes_html() -> None:
    folder = Path(__file__).parents[2] / "src/daybreak/dashboard/static"
    assert {f.name for f in folder.iterdir()} == set(ASSETS), "all are listed, none is missing"
    for file in folder.glob("*.js"):
        text = file.read_text()
        for banned in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert banned not in text, f"{file.name} uses {banned}"
        assert "https://" not in text


def test_a_stream_begins_with_everything_and_goes_on_with_news(served: Dashboard) -> None:
    with events(served) as stream:
        first = next(stream)
        assert (first.kind, first.data["pipeline"]) == ("hello", "record0")
        fields = first.data["fields"]["queries"]
        named = [dict(zip(fields, row, strict=True)) for row in first.data["queries"]]
        assert [q["name"] for q in named] == [NASTY, "a"]
        assert len(first.data["points"]) >= 5
        second = next(stream)
        assert second.kind == "news"
        assert second.data["queries"] == second.data["points"] == [], "nothing has changed"


def test_who_comes_back_gets_what_was_missed_and_a_stranger_everything(served: Dashboard) -> None:
    with events(served) as stream:
        seen = [next(stream) for _ in range(4)]
    with events(served, last=seen[1].id) as stream:
        again = [next(stream) for _ in range(2)]
        assert [e.id for e in again] == [e.id for e in seen[2:]]
    for stranger in ("", "0000-3", f"{seen[0].id.split('-')[0]}-x", "-", "\xe4-1"):
        with events(served, last=stranger) as stream:
            assert next(stream).kind == "hello"


def test_nobody_looks_at_the_run_while_no_page_is_open(stage: Stage) -> None:
    with Dashboard(stage, every_s=0.05) as served:
        hub = served.site.hub
        assert hub.looks == 0
        with events(served) as stream:
            next(stream)
            next(stream)
        until(lambda: hub.pages == 0)
        before = hub.looks
        time.sleep(0.3)  # not for luck: six periods in which nothing may happen
        assert hub.looks <= before + 1


def test_a_page_that_does_not_listen_is_let_go(stage: Stage) -> None:
    """Its queue is bounded, its connection ends; others are served on."""
    much = {"troubles": {"of_this_test": "x" * 500_000}}

    def told(command: str, values: Mapping[str, Any]) -> Any:
        return {**stage(command, values), **much}

    with Dashboard(told, every_s=0.005) as served, events(served) as lively:
        next(lively)
        deaf = socket.create_connection(("127.0.0.1", served.port))
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        until(lambda: served.site.hub.pages == 2)
        # What the kernel and the server's buffers hold, then the bounded queue, then it is over.
        gone_by = time.monotonic() + 60
        for event in lively:
            assert event.kind == "news"
            if served.site.hub.pages == 1:
                break
            assert time.monotonic() < gone_by
        deaf.close()


def test_there_is_a_bound_on_pages(served: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PAGES == 32
    monkeypatch.setattr("daybreak.dashboard.server.MOST_PAGES", 1)
    with events(served) as stream:
        next(stream)
        assert ask(served, "GET", "/events").status == 503


def test_a_change_reaches_the_run_with_who_asked(served: Dashboard, stage: Stage) -> None:
    body = {"command": "set-class", "args": {"class": "high", "priority": 70}}
    answer = ask(served, "POST", "/api/command", own(served), json.dumps(body).encode())
    assert (answer.status, answer.json) == (200, {"ok": True, "result": {"done": "set-class"}})
    assert stage.asked == [
        ("set-class", {"class": "high", "priority": 70, "by": "dashboard 127.0.0.1"})
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'{"command": "drop", "args": {"query": "a"}}',
        b'{"command": "register", "args": {}}', b'{"command": "snapshot"}', b'{"command": 3}',
        b'{"command": ["pause"]}', b'{"command": "pause", "args": []}',
        b'{"command": "pause", "args": {"query": "a", "by": "somebody else"}}',
        b'{"command": "pause", "args": {"query": "unknown"}}', b"\xff\xfe", b"[" * 60_000,
    ],
)  # fmt: skip
def test_whatever_is_sent_is_answered_and_nothing_happens(
    served: Dashboard, stage: Stage, body: bytes
) -> None:
    answer = ask(served, "POST", "/api/command", own(served), body)
    assert answer.status == 400
    assert answer.json["ok"] is False
    assert set(answer.json["error"]) == {"place", "finding", "remedy"}
    assert stage.asked == []


def test_a_body_without_end_is_cut_off(served: Dashboard) -> None:
    assert ask(served, "POST", "/api/command", own(served), b" " * 70_000).status == 413


def test_a_script_gets_the_snapshot(served: Dashboard, record: Path) -> None:
    found = ask(served, "GET", "/api/snapshot").json
    assert Snapshot.from_json(found) == snapshot_of_record(record)


def test_prometheus_gets_its_text(served: Dashboard) -> None:
    found = ask(served, "GET", "/metrics")
    assert (found.status, found.headers["content-type"]) == (200, CONTENT_TYPE)
    assert b'daybreak_class_priority{class="high"} 60.0' in found.body


def test_pages_hear_of_a_server_that_ends(stage: Stage) -> None:
    served = Dashboard(stage, every_s=0.05)
    with events(served) as stream:
        next(stream)
        served.close()
        assert [e.kind for e in stream if e.kind != "news"] == [], "it ends, and so does the loop"
    with pytest.raises(OSError, match="refused"):
        ask(served, "GET", "/")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no readable run report"):
        RunFolder(tmp_path)


def test_a_port_that_is_taken_is_refused_and_a_free_one_found(stage: Stage) -> None:
    with Dashboard(stage) as first:
        with pytest.raises(ConfigError, match="cannot listen there"):
            Dashboard(stage, port=first.port)
        with Dashboard(stage) as second:
            assert second.port != first.port


def test_a_snapshot_that_cannot_be_had_is_told_and_comes_back(record: Path) -> None:
    """The run ended before it wrote a record, say; later there is one."""
    stage = Stage(record)
    broken = [True]

    def now_and_then(command: str, values: Mapping[str, Any]) -> Any:
        if broken[0]:
            raise ConfigError("runs/x", "no run is there now", "start it")
        return stage(command, values)

    with Dashboard(now_and_then, every_s=0.02) as served, events(served) as stream:
        assert "no run is there now" in next(stream).data["error"]
        broken[0] = False
        assert next(e for e in stream if e.kind != "gone").kind == "hello"
