"""``daybreak replay``: the decisions of a recorded run, taken again by the code of today."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from daybreak.cli.completion import complete_policy
from daybreak.cli.console import console, print_json
from daybreak.cli.control import named_policy
from daybreak.policies.registry import make_policy_with
from daybreak.report.text import count
from daybreak.report.why import reason_lines
from daybreak.runtime.journal_replay import (
    DecisionReplay,
    Divergence,
    Side,
    decision_text,
    replay_run,
)


def replay(
    run: Annotated[
        Path, typer.Argument(help="A run directory, or the record of one of its starts.")
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            help="Decide by another policy: NAME or 'NAME {\"train\": 100}'.",
            autocompletion=complete_policy,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Takes the decisions of a recorded run again, with the code of today.

    Shows the first decision that differs. Exit code 0 if none does, 1 if one does, 2 if there is no
    whole journal.

    Example: daybreak replay runs/wildfire --policy stride
    """
    chosen = None
    if policy is not None:
        name, given = named_policy(policy)
        chosen = make_policy_with(name, **given)
    found = replay_run(run, chosen)
    if as_json:
        print_json(found.as_json())
    else:
        for line in replay_lines(found):
            console().print(line, markup=False, highlight=False, soft_wrap=True)
    if found.divergence is not None:
        raise typer.Exit(1)


def replay_lines(found: DecisionReplay) -> Iterator[str]:
    """What a replay found, for a person."""
    done = (
        f"{count(found.entries)} entries, {count(found.decisions)} decisions under {found.policy}"
    )
    if found.divergence is None:
        yield f"{done}: all as recorded"
        return
    yield f"{done} as recorded, then one differs"
    yield from _divergence_lines(found, found.divergence)


def _divergence_lines(found: DecisionReplay, first: Divergence) -> Iterator[str]:
    at = datetime.fromtimestamp(first.at_ns / 1e9, UTC).astimezone()
    yield f"entry {first.number} at {at:%H:%M:%S.%f}, after {', '.join(first.events)}"
    was, now = first.recorded.decisions, first.now.decisions
    yield from _side_lines("recorded", first.recorded, [d for d in was if d not in now], found)
    yield from _side_lines("now", first.now, [d for d in now if d not in was], found)


def _side_lines(title: str, side: Side, own: list[Any], found: DecisionReplay) -> Iterator[str]:
    """``own``: what the other side did not decide."""
    yield f"  {title}, under {side.policy}:"
    for decision in own:
        yield f"    {decision_text(decision, found.names)}"
    if not own:
        yield "    nothing but that" if side.decisions else "    nothing"
    for name, reason in side.reasons.items():
        yield f"    {name}:"
        yield from reason_lines(reason.as_json(), "      ")
