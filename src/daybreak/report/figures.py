"""One look for every picture, and one place that knows whether matplotlib is installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Colour-blind safe (Okabe and Ito), in the order curves take them.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "savefig.dpi": 120,
}


def can_draw() -> bool:
    """Whether the ``plot`` extra is installed."""
    return find_spec("matplotlib") is not None


def save_figure(
    draw: Callable[[Figure], None], path: Path, size: tuple[float, float] = (8.0, 4.5)
) -> Path:
    """Draws into a new figure and writes it as PNG, complete or not at all."""
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    with mpl.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLOURS)}):
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial.png")
        figure.savefig(partial, format="png", metadata={"Software": None})
        partial.replace(path)
    return path
