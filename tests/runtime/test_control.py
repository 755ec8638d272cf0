"""The control socket: one line asks, one line answers, and nothing a stranger sends breaks it."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.until import until

from daybreak.model import ConfigError
from daybreak.runtime import control
from daybreak.runtime.control import MOST_BYTES, SOCKET, ControlServer, answer, call


def echo(command: str, args: Mapping[str, Any]) -> Any:
    if command == "refuse":
        raise ConfigError("here", "not so", "but so")
    if command == "break":
        raise KeyError("oops")
    return {"command": command, "args": dict(args)}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Deeper than a socket's path may be long."""
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    (deep / "daybreak.json").write_text("{}")
    server = ControlServer(deep, echo)
    yield deep
    server.close()
    server.close()  # harmless
    assert not (deep / SOCKET).exists()


def test_a_question_is_answered_and_only_its_user_may_ask(folder: Path) -> None:
    assert len(str(folder / SOCKET)) > 108
    assert call(folder, "do", {"x": 1}) == {"command": "do", "args": {"x": 1}}
    assert stat.S_IMODE((folder / SOCKET).stat().st_mode) == 0o600


def test_refusals_reach_the_asker_as_they_are(folder: Path) -> None:
    with pytest.raises(ConfigError, match="here: not so; but so"):
        call(folder, "refuse")
    with pytest.raises(ConfigError, match="KeyError"):
        call(folder, "break")
    assert call(folder, "still")["command"] == "still"


def test_one_connection_may_ask_often_and_another_meanwhile(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as slow:
        handle = os.open(folder, os.O_RDONLY)
        slow.connect(f"/proc/self/fd/{handle}/{SOCKET}")
        os.close(handle)
        request = json.dumps({"v": 1, "command": "a"}).encode() + b"\n"
        slow.sendall(request[:5])
        assert call(folder, "b")["command"] == "b"  # half a line holds nobody up
        slow.sendall(request[5:] + request)
        lines = slow.makefile("rb")
        assert [json.loads(lines.readline())["result"]["command"] for _ in "ab"] == ["a", "a"]
        slow.sendall(b"x" * (MOST_BYTES + 1))
        assert not json.loads(lines.readline())["ok"]
        with suppress(ConnectionResetError):  # by what it had not read
            assert lines.read() == b"", "who sends too much is left"
    assert call(folder, "after")["command"] == "after"


def test_a_request_that_waits_holds_up_nobody_else(tmp_path: Path) -> None:
    """Such as the drop of a query whose sink blocks; nor does it hold up the end of the run."""
    began, go = threading.Event(), threading.Event()

    def handle(command: str, args: Mapping[str, Any]) -> Any:
        if command == "drop":
            began.set()
            go.wait()
        return echo(command, args)

    (tmp_path / "daybreak.json").write_text("{}")
    server = ControlServer(tmp_path, handle)
    answers: list[Any] = []
    asker = threading.Thread(target=lambda: answers.append(call(tmp_path, "drop")))
    asker.start()
    assert began.wait(10)
    for _ in range(3):
        assert call(tmp_path, "snapshot", timeout_s=10)["command"] == "snapshot"
    closing = threading.Thread(target=server.close)
    closing.start()
    go.set()
    asker.join(10)
    closing.join(10)
    assert [a["command"] for a in answers] == ["drop"], "answered, though the run stops"
    assert not (tmp_path / SOCKET).exists()


def test_who_asks_too_much_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MOST_ASKERS", 2)
    server = ControlServer(tmp_path, echo)
    with ExitStack() as held:
        for _ in range(2):
            asker = held.enter_context(socket.socket(socket.AF_UNIX))
            asker.connect(str(tmp_path / SOCKET))
        with pytest.raises(ConfigError, match="answers 2 others"):
            call(tmp_path, "x")

    def answered() -> bool:
        with suppress(ConfigError):
            return bool(call(tmp_path, "x"))
        return False

    until(answered, "the others have gone")
    server.close()


def test_where_no_run_is_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a run directory"):
        call(tmp_path / "nowhere", "queries")
    (tmp_path / "daybreak.json").write_text("{}")
    with pytest.raises(ConfigError, match="no run is there now"):
        call(tmp_path, "queries")
    with socket.socket(socket.AF_UNIX) as dead:  # as after kill -9: bound, nobody listens
        dead.bind(str(tmp_path / SOCKET))
    with pytest.raises(ConfigError, match="no run is there now"):
        call(tmp_path, "queries")
    server = ControlServer(tmp_path, echo)  # the next run takes its place
    assert call(tmp_path, "x")["command"] == "x"
    server.close()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(
    st.binary()
    | st.builds(lambda x: json.dumps(x).encode(), ANYTHING)
    | st.builds(
        lambda v, c, a: json.dumps({"v": v, "command": c, "args": a}).encode(),
        st.just(1) | ANYTHING,
        ANYTHING,
        ANYTHING,
    )
)
def test_whatever_is_sent_one_line_of_json_comes_back(line: bytes) -> None:
    told = answer(echo, line)
    assert told.endswith(b"\n")
    assert told.count(b"\n") == 1
    parsed = json.loads(told)
    assert parsed["v"] == 1
    assert set(parsed) in ({"v", "ok", "result"}, {"v", "ok", "error"})
