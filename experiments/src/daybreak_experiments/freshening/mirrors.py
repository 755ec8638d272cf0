"""The mirrors of the thesis's experiments: gamma change rates, Zipf access, Pareto sizes."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from daybreak.freshness.mirror import Floats, Mirror
from daybreak.model.errors import ConfigError, suggestion

Alignment = Literal["aligned", "reverse", "shuffled"]
ALIGNMENTS: tuple[str, ...] = get_args(Alignment)


def zipf(n: int, theta: float) -> Floats:
    """Access weights (1/i)^theta of objects 1 to n (footnote 1); they need not sum to 1."""
    weights: Floats = np.arange(1, n + 1, dtype=np.float64) ** -theta
    return weights


def gamma_rates(n: int, mean: float, deviation: float, rng: np.random.Generator) -> Floats:
    """Change rates with this mean and standard deviation (Tables 2.2 and 2.3)."""
    return rng.gamma((mean / deviation) ** 2, deviation**2 / mean, n)


def pareto_sizes(n: int, shape: float, rng: np.random.Generator) -> Floats:
    """Sizes with mean 1: scale k = (a - 1)/a. Footnote 4 prints the tail (k/x)^a as F(x)."""
    return (shape - 1) / shape * (1 + rng.pareto(shape, n))


def aligned_with_access(values: Floats, alignment: str, rng: np.random.Generator) -> Floats:
    """Deals values to objects 1 to n, of which object 1 is the most read (figure 2.2)."""
    if alignment == "aligned":
        return np.sort(values)[::-1]
    if alignment == "reverse":
        return np.sort(values)
    if alignment == "shuffled":
        return rng.permutation(values)
    raise ConfigError("alignment", f"{alignment!r}", suggestion(alignment, ALIGNMENTS))


def thesis_mirror(
    seed: int,
    *,
    objects: int = 500,
    theta: float = 1.0,
    alignment: str = "shuffled",
    mean_rate: float = 2.0,
    rate_deviation: float = 1.0,
) -> Mirror:
    """The setup of Table 2.2 (and, with 500 000 objects and deviation 2, of Table 2.3)."""
    rates = gamma_rates(objects, mean_rate, rate_deviation, np.random.default_rng([seed, 1]))
    dealt = aligned_with_access(rates, alignment, np.random.default_rng([seed, 2]))
    return Mirror.of(dealt, zipf(objects, theta))
