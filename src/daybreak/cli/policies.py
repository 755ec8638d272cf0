"""``daybreak policies``: what can decide who runs next."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

import typer

from daybreak.cli.console import console, print_json
from daybreak.policies.registry import all_policies
from daybreak.report.text import table


def policies(
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Lists the scheduling policies, their parameters and where they run.

    Example: daybreak policies --json
    """
    found = all_policies()
    if json:
        print_json(
            [
                {
                    "policy": p.name,
                    "summary": p.summary,
                    "granularity": p.granularity,
                    "starves_nothing": p.starves_nothing,
                    "on_spark": p.on_spark,
                    "parameters": [f.name for f in fields(p.Params)],
                }
                for p in found.values()
            ]
        )
        return
    rows = [("policy", "what it does", "chooses", "starves", "on Spark", "parameters")]
    for p in found.values():
        rows.append(
            (
                p.name,
                p.summary,
                p.granularity,
                "nothing" if p.starves_nothing else "may",
                "yes" if p.on_spark else "no",
                ", ".join(f.name for f in fields(p.Params)),
            )
        )
    console().print(table(rows))
