"""Pictures of the recorded measurements: p95 per class as bars, hatched where not sustained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.versus.present import Record, compositing, named
from benchmarks.versus.workload import CLASSES

from daybreak.report.figures import COLOURS, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_latency(records: Sequence[Record], path: Path) -> Path:
    """One panel per number of queries."""
    return _plot(
        records,
        path,
        "queries",
        lambda n: "1 query" if n == 1 else f"{n} queries",
        lambda r: str(r["side"]),
    )


def plot_rates(records: Sequence[Record], path: Path) -> Path:
    """One panel per rate."""
    return _plot(records, path, "rate_per_s", lambda r: f"{r:g} rows/s", lambda r: str(r["side"]))


def plot_loads(records: Sequence[Record], path: Path) -> Path:
    """One panel per load."""

    def name(record: Record) -> str:
        return named(record) + (", alone" if compositing(record) == "off" else "")

    return _plot(records, path, "load", lambda load: f"load {load:g}", name)


def _plot(
    records: Sequence[Record],
    path: Path,
    key: str,
    title: Callable[[Any], str],
    name: Callable[[Record], str],
) -> Path:
    good = [r for r in records if "failed" not in r]
    panels = sorted({r[key] for r in good})
    names = list(dict.fromkeys(name(r) for r in good))

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
        for ax, value in zip(axes, panels, strict=True):
            for record in good:
                if record[key] == value:
                    _bars(ax, names.index(name(record)), record)
            ax.set_title(title(value))
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter("")
            ax.set_xlabel("p95, creation to sink, s")
            ax.grid(visible=False, axis="y")
        axes[0].set_yticks(range(len(names)), names)
        axes[0].invert_yaxis()
        _legend(figure)

    # Wide enough for the legend, whatever there is to show.
    size = (2.2 + 2.4 * max(len(panels), 2), 1.5 + 0.42 * len(names))
    return save_figure(draw, path, size=size)


def _bars(ax: Axes, at: int, record: Record) -> None:
    height = 0.8 / len(CLASSES)
    for i, cls in enumerate(CLASSES):
        if (found := record["classes"].get(cls)) is not None:
            ax.barh(
                at + (i - 1) * height,
                found["p95_s"],
                height,
                color=COLOURS[i],
                alpha=1.0 if found["sustained"] else 0.4,
                hatch="" if found["sustained"] else "////",
            )


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    shown = [Patch(color=COLOURS[i], label=cls) for i, cls in enumerate(CLASSES)]
    unsustained = Patch(facecolor="#cccccc", hatch="////", label="rate not sustained")
    figure.legend(handles=[*shown, unsustained], loc="outside lower center", ncols=4)
