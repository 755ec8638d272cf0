"""The web server: a few fixed routes, on a thread beside whatever it shows.

Nothing changes by GET. Assets are a fixed list, read once; no request reaches the file system.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daybreak.dashboard.connections import Connections
from daybreak.dashboard.guard import Guard, RequestRefused, is_loopback
from daybreak.dashboard.hub import EVERY_S, MOST_PAGES, Hub
from daybreak.dashboard.lateness import lateness
from daybreak.dashboard.metrics import CONTENT_TYPE, exposition
from daybreak.dashboard.replays import Replays
from daybreak.dashboard.source import Ask
from daybreak.model.errors import ConfigError
from daybreak.policies.registry import all_policies
from daybreak.runtime.snapshot import Snapshot
from daybreak.version import __version__

#: Everything the page is made of.
ASSETS: Mapping[str, str] = {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    **dict.fromkeys(
        ("main.js", "model.js", "format.js", "dom.js", "chart.js", "classes.js", "queries.js",
         "network.js", "schedule.js", "whatif.js", "changes.js", "actions.js", "offsets.js",
         "plan.js"),
        "text/javascript; charset=utf-8",
    ),
}  # fmt: skip
#: What the page may do; the control socket can do more.
COMMANDS = frozenset({"pause", "resume", "set-class", "set-query", "set-policy"})
MOST_BODY_BYTES = 65536
#: Longer than any command takes.
ANSWERED_WITHIN_S = 180.0
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)


class Site:
    """The routes, and what they share."""

    def __init__(self, ask: Ask, guard: Guard, every_s: float, folder: Path | None) -> None:
        self._ask = ask
        self._folder = folder
        self.replays = Replays(folder)
        self._guard = guard
        self.hub = Hub(ask, every_s)
        self._threads = ThreadPoolExecutor(4, "daybreak-command")
        static = files("daybreak.dashboard") / "static"
        self._assets = {name: (static / name).read_bytes() for name in ASSETS}
        self.app: ASGIApp = _Protected(self._routes(), guard)

    def _routes(self) -> Starlette:
        read, write = ["GET"], ["POST"]
        app = Starlette(
            exception_handlers={RequestRefused: _refused, ConfigError: _mistaken},
            routes=[
                Route("/", self._page, methods=read),
                *(
                    Route(f"/static/{name}", self._asset(name), methods=read)
                    for name in ASSETS
                    if name != "index.html"
                ),
                Route("/events", self._events, methods=read),
                Route("/api/session", self._session, methods=read),
                Route("/metrics", self._metrics, methods=read),
                Route("/api/snapshot", self._snapshot, methods=read),
                Route("/api/command", self._command, methods=write),
                Route("/api/why", self._why, methods=read),
                Route("/api/whatif", self._whatif, methods=read),
                Route("/api/whatif", self._start_whatif, methods=write),
            ],
        )
        app.router.redirect_slashes = False
        return app

    def _asset(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        async def give(_request: Request) -> Response:
            return Response(self._assets[name], media_type=ASSETS[name])

        return give

    async def _page(self, request: Request) -> Response:
        page = Response(self._assets["index.html"], media_type=ASSETS["index.html"])
        if self._guard.check_reader(request):
            page.headers["set-cookie"] = self._guard.set_cookie()
        return page

    async def _events(self, request: Request) -> Response:
        if self.hub.pages >= MOST_PAGES:
            raise RequestRefused(503, "too many pages are open")
        seen = request.headers.get("last-event-id") or request.query_params.get("last")
        events = self.hub.events(seen)
        return StreamingResponse(events, media_type="text/event-stream")

    async def _session(self, _request: Request) -> Response:
        """What the page has to know besides the run; other sites cannot read it."""
        usable = {n: p.summary for n, p in all_policies().items() if p.on_spark}
        return JSONResponse({"csrf": self._guard.csrf, "version": __version__, "policies": usable})

    async def _snapshot(self, _request: Request) -> Response:
        return JSONResponse(await self.hub.snapshot({}))

    async def _metrics(self, _request: Request) -> Response:
        # Only the latest of what grows: the exposition has no use for jobs and history.
        newest = {"jobs_after": 2**53, "points_after": 2**53, "changes_after": 2**53}
        snapshot = Snapshot.from_json(await self.hub.snapshot(newest))
        return Response(exposition(snapshot), media_type=CONTENT_TYPE)

    async def _command(self, request: Request) -> Response:
        asked = await read_object(request)
        command, args = asked.get("command"), asked.get("args", {})
        known = isinstance(command, str) and command in COMMANDS
        if not known or not isinstance(args, dict) or "by" in args:
            raise ConfigError("request", f"{command!r} is not for the page", "see its help")
        by = f"dashboard {request.client.host if request.client else 'unknown'}"
        result = await self.in_thread(self._ask, command, {**args, "by": by})
        await self.hub.look_now()
        return JSONResponse({"ok": True, "result": result})

    async def _why(self, request: Request) -> Response:
        asked = request.query_params
        query, cls = asked.get("query"), asked.get("class")
        found = await self.in_thread(lateness, self._folder, self._ask, query, cls)
        return JSONResponse(found)

    async def _whatif(self, _request: Request) -> Response:
        return JSONResponse(self.replays.status())

    async def _start_whatif(self, request: Request) -> Response:
        policies = (await read_object(request)).get("policies")
        if not isinstance(policies, list):
            raise ConfigError("what-if", "names no policies", "give a list of them")
        result = await self.in_thread(self.replays.start, policies)
        return JSONResponse({"ok": True, "result": result})

    async def in_thread(self, do: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, do, *args)

    def close(self) -> None:
        self.hub.close()
        self.replays.close()
        self._threads.shutdown(wait=False, cancel_futures=True)


async def read_object(request: Request) -> dict[str, Any]:
    """The body, a JSON object of bounded size."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise RequestRefused(413, "that is too long")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ConfigError("request", "is not a JSON object", "send one")
    return found


class _Protected:
    """Around all routes: nothing is answered before the guard agreed, nothing without headers."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        request = Request(scope, receive)
        try:
            self._guard.check_host(request)
            self._guard.check_reader(request)
            if request.method not in ("GET", "HEAD"):
                self._guard.check_writer(request)
            # A client that does not read its answer; pages have queues of their own (`Hub`).
            async with asyncio.timeout(None if scope["path"] == "/events" else ANSWERED_WITHIN_S):
                await self._app(scope, receive, send_protected)
        except RequestRefused as refused:
            answer = await _refused(request, refused)
            await answer(scope, receive, send_protected)


async def _refused(_request: Request, refused: Exception) -> Response:
    assert isinstance(refused, RequestRefused)
    return PlainTextResponse(f"{refused.why}\n", refused.status)


async def _mistaken(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ConfigError)
    said = {"place": error.place, "finding": error.finding, "remedy": error.remedy}
    return JSONResponse({"ok": False, "error": said}, 400)


class Dashboard:
    """A server on its own thread, from its making until ``close``."""

    def __init__(
        self,
        ask: Ask,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
        every_s: float = EVERY_S,
        folder: Path | None = None,
        connections: Connections | None = None,
    ) -> None:
        """``port`` 0 takes any that is free; ``ConfigError`` if the address is not to be had.

        ``folder``: the run directory, for what-if. ``connections``: other bounds on them.
        """
        self._socket = _listen(host, port)
        self.host, self.port = host, self._socket.getsockname()[1]
        self.token = None if is_loopback(host) else token
        try:
            self.site = Site(ask, Guard(host, self.port, self.token), every_s, folder)
        except BaseException:
            self._socket.close()
            raise
        # Errors of a request are answered; the run's own output is not for them.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        config = uvicorn.Config(
            self.site.app, log_config=None, access_log=False, lifespan="off", ws="none",
            timeout_graceful_shutdown=2, server_header=False, h11_max_incomplete_event_size=16384,
            http=(connections or Connections()).protocol(),
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="daybreak-dashboard", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """What to open; with the token, where one is needed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

    def close(self) -> None:
        """Ends all streams and the server. Idempotent."""
        self._server.should_exit = True
        with suppress(RuntimeError):  # the loop is closed already
            # Streams never end by themselves, and the server waits for them.
            self._loop.call_soon_threadsafe(self.site.close)
        self._thread.join()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve_until_exit())

    async def _serve_until_exit(self) -> None:
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self.site.close()
            self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(64)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"dashboard on {host}:{port}", f"cannot listen there ({error.strerror})",
            "choose another address",
        ) from error  # fmt: skip
    return listener
