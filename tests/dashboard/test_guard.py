"""Who may look and who may change; no Spark."""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Iterator

import pytest
from tests.dashboard.conftest import Stage
from tests.dashboard.web import Answer, ask, own

from daybreak.cli.dashboard import TOKEN_VARIABLE
from daybreak.dashboard.guard import Guard, is_loopback, new_token, parse_address
from daybreak.dashboard.server import HEADERS, Dashboard
from daybreak.model import ConfigError

PAUSE = json.dumps({"command": "pause", "args": {"query": "a"}}).encode()
TOKEN = "a-token-that-is-long-enough"


def pause(served: Dashboard, headers: dict[str, str]) -> Answer:
    return ask(served, "POST", "/api/command", headers, PAUSE)


def without(headers: dict[str, str], *names: str) -> dict[str, str]:
    return {k: v for k, v in headers.items() if k not in names}


def test_our_own_page_may_change(served: Dashboard, stage: Stage) -> None:
    assert pause(served, own(served)).status == 200
    assert pause(served, without(own(served), "Sec-Fetch-Site")).status == 200
    assert pause(served, without(own(served), "Origin")).status == 200
    assert len(stage.asked) == 3


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/api/command", "/", "/events", "/api/session"])
def test_nothing_changes_but_by_post(
    served: Dashboard, stage: Stage, method: str, path: str
) -> None:
    target = f"{path}?command=pause&query=a"
    if (method, path) not in (("GET", "/events"), ("HEAD", "/events")):
        ask(served, method, target, own(served), PAUSE)
    assert stage.asked == []


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data"}, 415),
        ({"Content-Type": "application/jsonp"}, 415),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"X-Daybreak-CSRF": ""}, 403),
        ({"X-Daybreak-CSRF": "wrong"}, 403),
        ({"X-Daybreak-CSRF": "\xe4"}, 403),
    ],
)
def test_a_change_from_another_site_is_refused(
    served: Dashboard, stage: Stage, changed: dict[str, str], status: int
) -> None:
    assert pause(served, own(served) | changed).status == status
    assert stage.asked == []


def test_a_change_of_no_origin_is_refused(served: Dashboard, stage: Stage) -> None:
    assert pause(served, without(own(served), "Origin", "Sec-Fetch-Site")).status == 403
    assert pause(served, without(own(served), "Content-Type")).status == 415
    assert pause(served, without(own(served), "X-Daybreak-CSRF")).status == 403
    assert stage.asked == []


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8265", "", "127.0.0.1.evil.example", "[", "10.0.0.1", "a@b"],
)
def test_a_name_that_somebody_points_here_is_not_ours(served: Dashboard, host: str) -> None:
    """DNS rebinding: the browser thinks it speaks to the other site, and lets its scripts read."""
    for path in ("/", "/api/session", "/api/snapshot", "/static/main.js"):
        assert ask(served, "GET", path, {"Host": host}).status in (400, 421)
    origin = {"Host": host, "Origin": f"http://{host}"}
    assert ask(served, "POST", "/api/command", own(served) | origin, PAUSE).status in (400, 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9999", "[::1]:80", "LOCALHOST:1"])
def test_a_tunnel_may_change_the_port(served: Dashboard, host: str) -> None:
    assert ask(served, "GET", "/", {"Host": host}).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py",
        "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/....//server.py", "/static/",
        "/static", "/static/index.html", "/static/main.js/", "/static/main.js%00", "/../guard.py",
        "/static/..\\server.py", "//etc/passwd", "/favicon.ico", "/api", "/api/", "/.git/config",
    ],
)  # fmt: skip
def test_paths_lead_nowhere_else(served: Dashboard, path: str) -> None:
    answer = ask(served, "GET", path)
    assert answer.status in (400, 404)
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/session", "/nowhere"])
def test_every_answer_is_locked_down(served: Dashboard, path: str) -> None:
    headers = ask(served, "GET", path).headers
    for name, value in HEADERS:
        assert headers[name.lower()] == value
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.fixture(scope="module")
def far(_running: tuple[Stage, Dashboard]) -> Iterator[Dashboard]:
    """Reachable from other machines, so with a token."""
    with Dashboard(_running[0], "0.0.0.0", token=TOKEN) as dashboard:
        yield dashboard


def test_without_the_token_nothing_is_told(far: Dashboard, stage: Stage) -> None:
    for path in ("/", "/events", "/api/snapshot", "/api/session", "/static/main.js", "/nowhere"):
        answer = ask(far, "GET", path)
        assert answer.status == 401
        assert "set-cookie" not in answer.headers
    assert pause(far, own(far)).status == 401
    assert stage.asked == []


@pytest.mark.parametrize(
    "wrong", ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%00", "%C3%A4", "%FF"]
)
def test_a_wrong_token_is_no_token(far: Dashboard, wrong: str) -> None:
    assert ask(far, "GET", f"/?token={wrong}").status == 401
    bearer = {"Authorization": f"Bearer {wrong}"}
    assert ask(far, "GET", "/api/snapshot", bearer).status == 401
    cookie = {"Cookie": f"daybreak-{far.port}={wrong}"}
    assert ask(far, "GET", "/", cookie).status == 401


def test_the_token_is_shown_once_and_then_a_cookie(far: Dashboard, stage: Stage) -> None:
    first = ask(far, "GET", f"/?token={TOKEN}")
    assert first.status == 200
    set_cookie = first.headers["set-cookie"]
    name, _, rest = set_cookie.partition("=")
    value, *attributes = [part.strip() for part in rest.split(";")]
    assert name == f"daybreak-{far.port}"
    assert TOKEN not in set_cookie
    assert set(attributes) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    cookie = {"Cookie": f"other=1; {name}={value}"}
    assert ask(far, "GET", "/", cookie).status == 200
    csrf = ask(far, "GET", "/api/session", cookie).json["csrf"]
    changed = own(far, X_Daybreak_CSRF=csrf) | cookie
    assert pause(far, without(changed, "X-Daybreak-CSRF")).status == 403
    assert pause(far, changed).status == 200
    assert len(stage.asked) == 1


def test_a_script_carries_the_token_in_a_header(far: Dashboard) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert ask(far, "GET", "/api/snapshot", bearer).status == 200
    assert ask(far, "GET", "/api/snapshot", {"Authorization": f"Basic {TOKEN}"}).status == 401


def test_far_away_names_are_addresses_and_this_machine(far: Dashboard) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for host in ("192.0.2.7:80", socket.gethostname(), "[2001:db8::1]", "localhost"):
        assert ask(far, "GET", "/", {**bearer, "Host": host}).status == 200
    assert ask(far, "GET", "/", {**bearer, "Host": "evil.example"}).status == 421


def test_tokens_are_compared_in_constant_time(
    far: Dashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them go through hmac.compare_digest, as bytes."""
    compared: list[tuple[bytes, bytes]] = []
    real = hmac.compare_digest

    def spy(given: bytes, expected: bytes) -> bool:
        compared.append((given, expected))
        return real(given, expected)

    monkeypatch.setattr("daybreak.dashboard.guard.hmac.compare_digest", spy)
    ask(far, "GET", "/?token=guess-1")
    ask(far, "GET", "/", {"Authorization": "Bearer guess-2"})
    ask(far, "GET", "/", {"Cookie": f"daybreak-{far.port}=guess-3"})
    assert {given for given, _ in compared} >= {b"guess-1", b"guess-2", b"guess-3"}


def test_beyond_this_machine_a_good_token_is_needed(stage: Stage) -> None:
    with pytest.raises(ConfigError, match="has no token"):
        Dashboard(stage, "0.0.0.0")
    with pytest.raises(ConfigError, match="too short"):
        Guard("0.0.0.0", 1, "short")
    assert len(new_token()) >= 32
    assert new_token() != new_token()
    with Dashboard(stage, "127.0.0.1", token=TOKEN) as near:
        assert "token" not in near.url
    assert TOKEN_VARIABLE == "DAYBREAK_DASHBOARD_TOKEN"


def test_addresses_are_read() -> None:
    assert parse_address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert parse_address("[::1]:8080") == ("::1", 8080)
    assert parse_address("8265") == ("127.0.0.1", 8265)
    for wrong in ("", ":", "host:", "host:x", ":80", "host:70000", "host:-1"):
        with pytest.raises(ConfigError, match="give HOST:PORT"):
            parse_address(wrong)
    assert is_loopback("127.0.0.3")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.evil.example")
