"""What a report says about overload: of which kind it was, and what was dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daybreak.report.text import count
from daybreak.runtime.overload import TOLERANCE, overload
from daybreak.runtime.report import RunReport


def overload_lines(report: RunReport) -> list[str]:
    """One line per thing worth knowing; none for a run that was well."""
    found = overload(report)
    lines = []
    if found.share("capacity"):
        lines.append(
            f"capacity overload in {found.share('capacity'):.0%} of the run: more work came in "
            f"than the workers could do (at most {found.offered.max():.2f} of it)"
        )
    if found.share("qos"):
        lines.append(
            f"QoS overload in {found.share('qos'):.0%} of the run: the workers could do it all, "
            f"yet more than {TOLERANCE:.0%} of the utility was lost"
        )
    return lines


def dropped_table(report: RunReport, most: int | None = None) -> list[Sequence[str]]:
    """What load shedding dropped, most first; nothing if nothing was."""
    total = sum(report.dropped)
    if not total:
        return []
    ranked = sorted(zip(report.dropped, report.queries, report.query_class, strict=True))[::-1]
    rows: list[Sequence[str]] = [("query", "class", "dropped at its inputs")]
    rows += [(name, report.classes[c], count(n)) for n, name, c in ranked[:most] if n]
    return rows


def overload_json(report: RunReport) -> dict[str, Any]:
    found = overload(report)
    return {
        "capacity": found.share("capacity"),
        "qos": found.share("qos"),
        "offered": [float(v) for v in found.offered],
        "states": list(found.states),
    }
