"""Why a query, or a class, was late: the lines of ``daybreak why`` for the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from daybreak.dashboard.source import Ask
from daybreak.model.errors import ConfigError, suggestion
from daybreak.report.why import now_lines, why_lines
from daybreak.runtime.why.findings import slowest_query, why

#: The newest minutes, as the command takes them.
LAST_S = 300.0


def lateness(folder: Path | None, ask: Ask, query: str | None, cls: str | None) -> dict[str, Any]:
    """Of a query, or of the query of a class that had the worst answer; without replays."""
    if folder is None:
        raise ConfigError("why", "the run has no folder", "use daybreak why")
    now = None
    if query is None:
        known = [row["name"] for row in ask("snapshot", {})["classes"]]
        if cls not in known:
            raise ConfigError(f"class {cls!r}", "is not declared", suggestion(str(cls), known))
        query = slowest_query(folder, str(cls), LAST_S)
    try:
        now = ask("why", {"query": query})
    except ConfigError:
        now = None  # the run has ended: its record tells
    lines = list(why_lines(why(folder, query, last_s=LAST_S)))
    if now is not None:
        lines += now_lines(now)
    return {"query": query, "lines": lines}
