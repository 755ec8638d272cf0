"""``daybreak dashboard`` and ``daybreak run --dashboard``: a run as a web page."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daybreak.cli.console import error_console
from daybreak.cli.watch import stop_signals
from daybreak.model.errors import ConfigError

if TYPE_CHECKING:
    from daybreak.dashboard.server import Dashboard
    from daybreak.dashboard.source import Ask
    from daybreak.spark.run import Run

DEFAULT_ADDRESS = "127.0.0.1:8265"
#: A token of one's own, so that pages stay valid over restarts.
TOKEN_VARIABLE = "DAYBREAK_DASHBOARD_TOKEN"  # noqa: S105  # the variable's name, not a secret
DashboardAddress = Annotated[
    str,
    typer.Option(
        help="HOST:PORT of the page; port 0 takes a free one. Beyond this machine it asks for "
        f"a token: that of {TOKEN_VARIABLE}, or a new one, printed."
    ),
]


def dashboard(
    run: Annotated[Path, typer.Argument(help="The run directory of a running or finished run.")],
    address: DashboardAddress = DEFAULT_ADDRESS,
) -> None:
    """Serves a web page that shows a run and controls it, until Ctrl-C.

    Example: daybreak dashboard runs/wildfire
    """
    need_web(address)
    from daybreak.dashboard.source import RunFolder

    shown = RunFolder(run)
    with stop_signals() as stopped, serve(shown, address, run, say_plainly):
        stopped.wait()


def need_web(address: str) -> None:
    """``ConfigError`` if what the page needs is not installed, or its address makes no sense."""
    for module in ("starlette", "uvicorn"):
        if find_spec(module) is None:
            raise ConfigError(
                "dashboard", f"{module} is not installed", "pip install 'daybreak[web]'"
            )
    from daybreak.dashboard.guard import parse_address

    parse_address(address)


def say_plainly(line: str) -> None:
    """On standard error, as it is."""
    error_console().print(line, markup=False, highlight=False, soft_wrap=True)


def serve_run(run: Run, address: str, say: Callable[[str], None]) -> Dashboard:
    """A page for a run of this process; to be closed."""
    return serve(run.handle, address, run.folder, say)


def serve(ask: Ask, address: str, folder: Path | None, say: Callable[[str], None]) -> Dashboard:
    """A page for whatever answers the commands; ``folder``: what a what-if replays."""
    from daybreak.dashboard.guard import is_loopback, new_token, parse_address
    from daybreak.dashboard.server import Dashboard

    host, port = parse_address(address)
    token = None if is_loopback(host) else os.environ.get(TOKEN_VARIABLE) or new_token()
    serving = Dashboard(ask, host, port, token, folder=folder)
    say(f"dashboard: {serving.url}")
    return serving
