"""What the freshening experiments share: verdicts, means over seeds, one kind of line plot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from daybreak_experiments.core import Claim
from daybreak_experiments.rules import Rule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Key = TypeVar("Key")

PF_AXIS = "perceived freshness"


def robust(claim: str, paper: str, ours: str, rule: Rule) -> Claim:
    return Claim(claim, "robust", paper, ours, rule)


def published(claim: str, paper: str, ours: str, rule: Rule) -> Claim:
    return Claim(claim, "published", paper, ours, rule)


def mean_by(keys: Sequence[Key], values: Sequence[float]) -> dict[Key, float]:
    """The mean of the values that share a key (the same setting under another seed)."""
    gathered: dict[Key, list[float]] = {}
    for key, value in zip(keys, values, strict=True):
        gathered.setdefault(key, []).append(value)
    return {key: float(np.mean(found)) for key, found in gathered.items()}


def lines(
    axes: Axes,
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    labels: tuple[str, str],
    title: str = "",
) -> None:
    """One line with markers per curve."""
    for (name, y), marker in zip(curves.items(), "osv^D*xP", strict=False):
        axes.plot(x, y, marker=marker, markersize=4, label=name)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    if title:
        axes.set_title(title, fontsize=10)


def panels(
    x: Sequence[float],
    plots: Mapping[str, Mapping[str, Sequence[float]]],
    labels: tuple[str, str],
    log: bool = False,
) -> Callable[[Figure], None]:
    """Panels side by side with a common scale, each with its title; one legend."""

    def draw(figure: Figure) -> None:
        axes = np.atleast_1d(figure.subplots(1, len(plots), sharey=True))
        for at, (title, curves) in zip(axes, plots.items(), strict=True):
            lines(at, x, curves, (labels[0], labels[1] if at is axes[0] else ""), title)
            if log:
                at.set_xscale("log")
        # Last: on shared axes a limit set earlier would stop the scaling to later panels.
        axes[0].set_ylim(bottom=0)
        axes[-1].legend(fontsize=8)

    return draw


def rising(values: Sequence[float], slack: float = 1e-9) -> bool:
    return bool((np.diff(values) >= -slack).all())
