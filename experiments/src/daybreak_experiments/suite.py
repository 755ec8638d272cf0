"""What ``daybreak reproduce`` calls: the entry point of the group ``daybreak.experiments``."""

from __future__ import annotations

import json
from pathlib import Path

from daybreak.report.figures import save_figure
from daybreak.suites import ExperimentRecord, Request
from daybreak_experiments.core import Context, as_json
from daybreak_experiments.pages import write_pages
from daybreak_experiments.registry import all_experiments

__all__ = ["run", "titles", "write_pages"]


def titles() -> dict[str, str]:
    return {name: experiment.title for name, experiment in all_experiments().items()}


def run(name: str, request: Request) -> ExperimentRecord:
    experiment = all_experiments()[name]
    context = Context(
        seeds=request.seeds or range(1, experiment.seeds + 1),
        traces=request.traces,
        workers=request.workers,
        on_progress=request.on_progress,
    )
    outcome = experiment.run(context)
    stem = name.replace("/", "-")
    figure = None
    if outcome.draw is not None:
        figure = str(save_figure(outcome.draw, request.out / f"{stem}.png"))
    record: ExperimentRecord = {
        "experiment": name,
        "title": experiment.title,
        "seeds": list(context.seeds),
        "claims": [as_json(line) for line in outcome.claims],
        "table": [list(row) for row in outcome.table],
        "notes": list(outcome.notes),
        "figure": figure,
    }
    _write(record, request.out / f"{stem}.json")
    return record


def _write(record: ExperimentRecord, target: Path) -> None:
    """Complete or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(target)
