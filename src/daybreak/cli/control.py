"""``daybreak queries|pause|resume|drop|register|set``: an operator's hand on a running pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from daybreak.cli.completion import complete_assignment
from daybreak.cli.console import console, print_json
from daybreak.engine.story import text_of
from daybreak.model.errors import ConfigError
from daybreak.report.text import count, duration, table
from daybreak.report.top import ingest_lines, stream_lines
from daybreak.runtime.control import call
from daybreak.runtime.snapshot import Snapshot

RunDir = Annotated[Path, typer.Argument(help="The run directory of a running pipeline.")]
QueryName = Annotated[str, typer.Argument(help="A query's name.")]
#: Asks for the status now, without the points and jobs of the last minutes.
NO_HISTORY = {"jobs_after": 10**15, "points_after": 10**15}
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def queries(
    run: RunDir,
    story: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What the scheduler has heard (>) and answered (<) about this query lately.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Lists the queries of a running pipeline and the state of each, or tells one's story.

    Example: daybreak queries runs/wildfire --story fire
    """
    if story is not None:
        _show_story(call(run, "story", {"query": story}), as_json)
        return
    found = call(run, "snapshot", NO_HISTORY)
    if as_json:
        print_json(found)
        return
    now, to = Snapshot.from_json(found), console()
    classes = ", ".join(f"{cls.name} {cls.priority:g}" for cls in now.classes)
    to.print(
        f"[bold]{now.pipeline}[/] under {now.policy} for {duration(now.elapsed_s)}; "
        f"classes {classes}"
    )
    rows = [("query", "class", "weight", "state", "waiting", "oldest", "tuples", "rows", "error")]
    for q in now.queries:
        rows.append(
            (
                q.name, q.cls, f"{q.weight:g}", q.state, count(q.waiting),
                duration(q.oldest_s) if q.waiting else "-", count(q.tuples), count(q.rows),
                q.error or "",
            )
        )  # fmt: skip
    to.print(table(rows))
    for line in (*stream_lines(now), *ingest_lines(now)):
        to.print(line, highlight=False, markup=False)
    for name, until in now.undeclared.items():
        line = f"query {name} is not declared; its place is kept until {until}"
        to.print(line, highlight=False, markup=False)


def _show_story(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if found["left_out"]:
        console().print(f"{found['left_out']} earlier lines are left out", highlight=False)
    for line in found["lines"]:
        console().print(text_of(line), markup=False, highlight=False, soft_wrap=True)


def pause(run: RunDir, query: QueryName, as_json: AsJson = False) -> None:
    """Pauses a query: a job under way ends, what arrives waits, also beyond a restart.

    Example: daybreak pause runs/wildfire archive
    """
    _show(call(run, "pause", {"query": query}), as_json)


def resume(
    run: RunDir,
    query: Annotated[str, typer.Argument(help="The name of a query, or of a stopped stream.")],
    skip: Annotated[
        bool,
        typer.Option(
            "--skip",
            help="Give up what it failed on: rows, or one result that its sink refuses; recorded.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Resumes a paused query, or retries a parked one; starts a stopped stream again.

    Example: daybreak resume runs/wildfire archive
    """
    result = call(run, "resume", {"query": query, "skip": skip}, timeout_s=150.0)
    _show(result, as_json)
    if skip and not as_json:
        console().print(f"{result['skipped'] or 'no'} rows were given up", highlight=False)


def drop(run: RunDir, query: QueryName, as_json: AsJson = False) -> None:
    """Forgets a query and its place in the streams; what it has delivered stays.

    A query that the pipeline file declares comes back with the next start: remove it there too.
    Also gives up the place of a query that the pipeline no longer declares.

    Example: daybreak drop runs/wildfire archive
    """
    _show(call(run, "drop", {"query": query}, timeout_s=150.0), as_json)


def register(
    run: RunDir,
    query: QueryName,
    sql: Annotated[str, typer.Option(help="The query, over the declared streams.")],
    cls: Annotated[str, typer.Option("--class", help="A declared class.")] = "default",
    weight: Annotated[float, typer.Option(help="Freshness weight in (0, 1].")] = 1.0,
    qos: Annotated[
        str | None, typer.Option(help="QoS graph as JSON: [[latency_s, utility], ...].")
    ] = None,
    sink: Annotated[str, typer.Option(help="FORMAT or FORMAT:PATH.")] = "console",
    sink_option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the sink, KEY=VALUE; may be repeated."),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", help="next: new segments only; earliest: all that are kept.")
    ] = "next",
    on_full: Annotated[str | None, typer.Option(help="skip or block when the log is full.")] = None,
    mode: Annotated[
        str | None, typer.Option(help="append, update or complete; see docs/modes.md.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Even if there is no capacity.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what it would do to the others.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Adds a query to a running pipeline; it is there again after a restart.

    It is refused if all queries together would ask for more time than there is.

    Example: daybreak register runs/wildfire hot --sql 'SELECT station FROM readings WHERE
    temperature > 50' --class critical --sink parquet:out/hot
    """
    form, _, path = sink.partition(":")
    declared = {
        "name": query,
        "sql": sql,
        "class": cls,
        "weight": weight,
        "qos": None if qos is None else _json(qos, "--qos"),
        "sink": {"format": form, "path": path or None, "options": _options(sink_option or [])},
        "on_full": on_full,
        "mode": mode,
    }
    values = {"query": declared, "from": start, "force": force, "dry": dry_run}
    result = call(run, "register", values)
    _show(result, as_json)
    if not as_json:
        _show_admission(result["admission"])


def _options(texts: list[str]) -> dict[str, str]:
    """``KEY=VALUE``; ``${NAME}`` in a value is filled in by the run, from its environment."""
    found = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark:
            raise ConfigError("--sink-option", f"{text!r} has no value", "give KEY=VALUE")
        found[key] = value
    return found


def _show_admission(verdict: dict[str, Any]) -> None:
    to = console()
    to.print(
        f"load {verdict['load']:.0%}, with it {verdict['after']:.0%} of capacity: "
        f"{'admitted' if verdict['admitted'] else 'too much'}"
    )
    rows = [("class", "waits longer by")]
    for name, times in verdict["longer"].items():
        rows.append((name, "beyond capacity" if times is None else f"x {times:.2f}"))
    to.print(table(rows))


def set_values(
    run: RunDir,
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY=VALUE...",
            autocompletion=complete_assignment,
            help="class.NAME=PRIORITY, query.NAME.class=CLASS, query.NAME.weight=WEIGHT, "
            "query.NAME.subscribers=COUNT, policy=NAME or policy='NAME {\"train\": 100}'.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Changes priorities, classes, weights or the policy of a running pipeline.

    They hold from the next schedule on, until the run ends.

    Example: daybreak set runs/wildfire class.critical=80 query.fire.weight=0.5 policy=stride
    """
    wanted = [_assignment(text) for text in assignments]  # all are read before the first is done
    results = [call(run, command, values) for command, values in wanted]
    if as_json:
        print_json(results)
        return
    for text in assignments:
        console().print(f"set {text}", markup=False, highlight=False)


def _assignment(text: str) -> tuple[str, dict[str, Any]]:
    key, equals, value = text.partition("=")
    parts = key.split(".", 1)
    if equals and key == "policy":
        name, given = named_policy(value)
        return "set-policy", {"policy": name, "parameters": given}
    if equals and len(parts) == 2 and parts[0] == "class":
        return "set-class", {"class": parts[1], "priority": _number(value, key)}
    if equals and len(parts) == 2 and parts[0] == "query":
        name, _, what = parts[1].rpartition(".")
        if name and what == "class":
            return "set-query", {"query": name, "class": value}
        if name and what in ("weight", "subscribers"):
            return "set-query", {"query": name, what: _number(value, key)}
    raise ConfigError(
        text,
        "is not understood",
        "give class.NAME=PRIORITY, query.NAME.class=CLASS, query.NAME.weight=WEIGHT, "
        "query.NAME.subscribers=COUNT or policy=NAME",
    )


def named_policy(text: str) -> tuple[str, Any]:
    """``NAME``, or ``NAME {"train": 100}``."""
    name, _, parameters = text.strip().partition(" ")
    given = _json(parameters, "policy") if parameters.strip() else {}
    if not isinstance(given, dict):
        raise ConfigError("policy", f"parameters {parameters!r}", "give a JSON object")
    return name, given


def _number(text: str, key: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(key, f"{text!r} is no number", "give a number") from None


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ConfigError(place, f"{text!r} is not JSON", "correct it") from None


def _show(result: Any, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    to = console()
    what = "stream" if result.get("stream") else "query"
    to.print(f"{what} {result['name']} is {result['state']}", markup=False, highlight=False)
