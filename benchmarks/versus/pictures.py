"""Pictures of the recorded measurements: p95 per class as bars, on a linear axis.

Where a rate was not sustained, the latency grew for as long as the measurement lasted, so its value
says little: such bars are pale and hatched, and end where the axis ends.
"""

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


#: In pictures, which have no table of settings beside them.
NAMES = {
    "daybreak": "Daybreak",
    "hand": "foreachBatch, composited by hand",
    "hand-nosync": "by hand, without fsync",
    "fanout-arrow": "foreachBatch, fanned out",
    "fanout-spark": "foreachBatch, Spark's writer",
    "rotation": "AvailableNow in rotation",
    **{f"each-{pool}{tuned}": f"a StreamingQuery each, {name}{', tuned' if tuned else ''}"
       for pool, name in (("fifo", "FIFO"), ("fair", "FAIR"), ("pools", "class pools"))
       for tuned in ("", "-tuned")},
}  # fmt: skip


def plot_latency(records: Sequence[Record], path: Path) -> Path:
    """One panel per number of queries."""
    return _plot(
        records,
        path,
        "queries",
        lambda n: "1 query" if n == 1 else f"{n} queries",
        lambda r: NAMES.get(r["side"], str(r["side"])),
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
    limit_s = _limit_s(good)

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False, sharex=True, sharey=True)[0]
        for ax, value in zip(axes, panels, strict=True):
            for record in good:
                if record[key] == value:
                    _bars(ax, names.index(name(record)), record, limit_s)
            ax.set_title(title(value))
            ax.set_xlim(0, limit_s)
            ax.set_xlabel("p95, creation to sink, s")
            ax.grid(visible=False, axis="y")
        axes[0].set_yticks(range(len(names)), names)
        axes[0].invert_yaxis()
        _legend(figure)

    # Wide enough for the legend, whatever there is to show.
    size = (3.2 + 2.4 * max(len(panels), 2), 1.5 + 0.42 * len(names))
    return save_figure(draw, path, size=size)


def _limit_s(records: Sequence[Record]) -> float:
    """A little more than the longest latency of the sides that sustained their rate."""
    all_s = [[c["p95_s"] for c in r["classes"].values()] for r in records]
    sound = [
        latencies
        for r, latencies in zip(records, all_s, strict=True)
        if all(c["sustained"] for c in r["classes"].values())
    ]
    return 1.1 * max((s for latencies in sound or all_s for s in latencies), default=1.0)


def _bars(ax: Axes, at: int, record: Record, limit_s: float) -> None:
    height = 0.8 / len(CLASSES)
    for i, cls in enumerate(CLASSES):
        if (found := record["classes"].get(cls)) is None:
            continue
        sustained, p95_s = found["sustained"], found["p95_s"]
        y = at + (i - 1) * height
        ax.barh(
            y,
            min(p95_s, limit_s) if sustained else limit_s,
            height,
            color=COLOURS[i],
            alpha=1.0 if sustained else 0.4,
            hatch="" if sustained else "////",
        )
        if sustained and p95_s > limit_s:
            text = f"{p95_s:.0f} s: off the scale "
            ax.text(limit_s, y, text, ha="right", va="center", color="white", fontsize=7)


def _legend(figure: Figure) -> None:
    from matplotlib.patches import Patch

    shown = [Patch(color=COLOURS[i], label=cls) for i, cls in enumerate(CLASSES)]
    unsustained = Patch(
        facecolor="#cccccc", hatch="////", label="rate not sustained: off the scale"
    )
    figure.legend(handles=[*shown, unsustained], loc="outside lower center", ncols=4)
