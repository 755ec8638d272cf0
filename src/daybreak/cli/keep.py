"""``daybreak freshen keep``: keeps a mirror fresh until it is stopped."""

from __future__ import annotations

import signal
import sqlite3
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from daybreak.cli.console import console, error_console, print_json
from daybreak.freshness.keep import Fetchers, MirrorKeeper, Store, make_sources, read_config
from daybreak.model.errors import ConfigError
from daybreak.model.redaction import shown_url
from daybreak.report.text import duration, table


def keep(
    config: Annotated[Path, typer.Argument(help="The mirror's TOML file; see docs/freshening.md.")],
    for_s: Annotated[
        float | None, typer.Option("--for", min=0, help="Stop after this many seconds.")
    ] = None,
    status: Annotated[
        bool,
        typer.Option("--status", help="Only show when each object is refreshed next, and why."),
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Only write the copies into this Parquet file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Refreshes a mirror on its timetable, learns change rates on the way and replans.

    Stops cleanly on Ctrl-C or SIGTERM; started again, it continues.

    Example: daybreak freshen keep mirror.toml --for 3600
    """
    declared = read_config(config)
    path = declared.path(declared.mirror.store)
    if status or export is not None:
        if not path.is_file():
            raise ConfigError(str(path), "there is no mirror yet", "run keep without options first")
        store = Store(path, shared=True)
        if export is not None:
            error_console().print(f"wrote {export}: {store.export(export)} copies")
        if status:
            _show(store, as_json)
        store.close()
        return
    keeper = MirrorKeeper(declared, Store(path), make_sources(declared))
    visits = _run(keeper, for_s, as_json)
    keeper.close()
    if as_json:
        print_json({"visits": visits, "store": str(path)})
    else:
        console().print(f"{visits} visits; the mirror is in {path}")


def _run(keeper: MirrorKeeper, for_s: float | None, quiet: bool) -> int:
    fetchers = Fetchers(keeper, time.time)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: fetchers.stop())
    visits = 0

    def show(outcome: str) -> None:
        nonlocal visits
        visits += 1
        if not quiet:
            error_console().print(outcome, highlight=False, markup=False)

    try:
        fetchers.run(time.time() + for_s if for_s is not None else float("inf"), show)
    except sqlite3.Error as error:
        raise ConfigError(
            str(keeper.store.path),
            f"the mirror's store cannot be used ({error})",
            "check the space and the rights there; copies made so far are kept",
        ) from error
    return visits


def _show(store: Store, as_json: bool) -> None:
    now_s = time.time()
    rows = store.rows()
    found: list[dict[str, Any]] = [
        {
            "object": shown_url(row.name, keep_query=True),
            "source": row.source,
            "last_visit_s_ago": None if row.visited_s is None else now_s - row.visited_s,
            "next_visit_in_s": None if row.due_s is None else row.due_s - now_s,
            "change_rate": row.rate,
            "why": row.why,
        }
        for row in rows
    ]
    if as_json:
        print_json(found)
        return
    lines = [["object", "last visit", "next visit", "why"]]
    for f in found:
        last, following = f["last_visit_s_ago"], f["next_visit_in_s"]
        lines.append(
            [
                f["object"],
                "-" if last is None else f"{duration(last)} ago",
                "-" if following is None else "due" if following <= 0 else duration(following),
                f["why"],
            ]
        )
    console().print(table(lines))
