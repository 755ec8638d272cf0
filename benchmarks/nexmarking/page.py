"""The page about Nexmark, made from what a run found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.nexmarking.queries import QUERIES

_HEAD = """# Nexmark: which query runs in which mode

Made by `python benchmarks/nexmark.py --docs docs/`. Do not edit it by hand.

Nexmark's 23 queries, as written up to dialect (`benchmarks/nexmarking/queries.py`), run in one
application at once, each in the [mode](modes.md) that fits. Results are compared with one batch of
Spark's over the same rows; in update mode the newest row of each key, for session windows those
that the watermark has closed. `ROW_NUMBER` is compared on rows that do not tie. Processing time
(q12) is a column that the producer stamps. The last column states in which output modes stock
Structured Streaming starts the same text, by its own rules (`UnsupportedOperationChecker`).

"""
_TABLE = """| query | asks for | mode | runs as | rows | equal to a batch | stock Spark |
|---|---|---|---|---|---|---|
"""


def page(
    unequal: Mapping[str, str | None],
    rows: Mapping[str, int],
    figures: Mapping[str, Any],
    stock: Mapping[str, str],
    events: int,
    kills: int,
) -> str:
    """The whole page."""
    lines = [
        f"| {name} | {query.asks} | {query.mode} | {figures['queries'][name]['kind']} "
        f"| {rows[name]} | {_shown(unequal[name])} | {stock[name]} |"
        for name, query in QUERIES.items()
    ]
    equal = sum(why is None for why in unequal.values())
    after = f", after {kills} kill(s) at random moments" if kills else ""
    foot = f"\n{equal} of {len(QUERIES)} results are equal to the batch, {events} events{after}.\n"
    return _HEAD + _TABLE + "\n".join(lines) + "\n" + foot


def _shown(why: str | None) -> str:
    return "yes" if why is None else f"no: {why}"
