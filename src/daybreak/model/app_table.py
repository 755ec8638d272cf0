"""The table ``[app]`` of a pipeline file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from daybreak.model.errors import ConfigError
from daybreak.model.storage import LogUrl, check_log, check_store
from daybreak.model.tables import Document, Table
from daybreak.model.timezone import check_timezone

DEFAULT_POLICY = "planned"
T = TypeVar("T")


class AppTable(NamedTuple):
    """What it says; see ``Pipeline``."""

    name: str
    policy: str = DEFAULT_POLICY
    max_window: str | None = None
    timezone: str | None = None
    log: LogUrl | None = None
    store: Path | None = None


def read_app(root: Table, document: Document, stem: str, folder: Path) -> AppTable:
    app = root.child("app") or Table(document, ("app",), {})
    found = AppTable(
        app.get("name", str) or stem,
        app.get("policy", str) or DEFAULT_POLICY,
        app.get("max_window", str),
        _checked(app, "timezone", check_timezone),
        _checked(app, "log", check_log),
        _checked(app, "store", lambda text, place: check_store(text, folder, place)),
    )
    app.done()
    return found


def _checked(app: Table, key: str, check: Callable[[str, str], T]) -> T | None:
    text = app.get(key, str)
    if text is None:
        return None
    try:
        return check(text, "[app]")
    except ConfigError as error:
        raise app.error(error.finding, error.remedy, key) from error
