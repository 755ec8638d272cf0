"""Solves the optimality condition of one object for x = lambda/f.

An object's marginal value per unit of bandwidth is r (1 - (1 + x) exp(-x)) with
r = p/(s lambda) (derivative of eq. 2.1; footnote 7 of section 2.7 prints the second sign wrong:
d/df Fbar = (1 - exp(-x))/lambda - exp(-x)/f). At the optimum it equals the multiplier mu, so x
depends on the object only through c = mu/r. With L = -log(1 - c) the condition reads
x - log(1 + x) = L, which loses no digits near c = 0 or c = 1, unlike Lambert's W.
"""

from __future__ import annotations

import math

import numpy as np

from daybreak.freshness.mirror import Floats

#: Below this L the difference x - log1p(x) has lost too many digits; the series has not.
SERIES_BELOW = 1e-5
# Barry et al. (2000), "Analytical approximations for real values of the Lambert W-function":
# a start within 0.03 % everywhere, which one Halley step brings to 2e-12.
M1, M2, M3 = 0.3361, -0.0042, -0.0201


def solve_staleness(depth: Floats) -> Floats:
    """x >= 0 with x - log1p(x) = ``depth``, to about 2e-12 relative, for depth >= 0.

    Infinite depth (an object not worth refreshing) gives infinite x.
    """
    # In place where it can be: this is where the planner spends its time.
    root = np.sqrt(depth)
    with np.errstate(all="ignore"):
        bend = np.exp(M3 * root)
        bend *= M2 * depth
        bend += 1
        np.divide(root, bend, out=bend)
        bend *= M1 / math.sqrt(2)
        x: Floats = bend / (1 + bend)
        x *= 2 / M1
        x += depth
        error = x - np.log1p(x)
        error -= depth
        square = x * x
        # Halley: x - 2 e x (1 + x)/(2 x^2 - e).
        step = (square + x) * error
        square *= 2
        square -= error
        step /= square
        step *= 2
        x -= step
    x[np.isinf(depth)] = np.inf
    if np.minimum.reduce(depth, initial=np.inf) < SERIES_BELOW:
        small = depth < SERIES_BELOW
        t = math.sqrt(2) * root[small]
        x[small] = t * (1 + t * (1 / 3 + t * (1 / 36 + t * (-1 / 270 + t / 4320))))
    return x


def staleness_for_freshness(target: float) -> float:
    """x with (1 - exp(-x))/x = ``target``: the largest lambda/f that is still that fresh."""
    if target >= 1:
        return 0.0
    if target <= 0:
        return math.inf
    low, high = 0.0, 1.0 / target + 1  # (1 - exp(-x))/x < 1/x
    for _ in range(200):
        x = (low + high) / 2
        if x in (low, high):
            break
        low, high = (x, high) if -math.expm1(-x) / x > target else (low, x)
    return low
