"""Which beta is the knee of staleness over response time, judged by the backlog at hand (ours).

The knee is the beta of the least staleness x response time: beyond it, one per cent less of the
one costs more than one per cent of the other. What a beta gives cannot be seen without running
it, but what its order would give for the updates that wait now can be reckoned: eq. 15 takes
queries in blocks, since its priority rises as a backlog shrinks, so each query is stale until its
block ends and its results leave evenly over the block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: The betas that are compared.
BETAS = np.linspace(0.0, 1.0, 11)
#: What each earlier backlog still counts when another one is added.
MEMORY = 0.9

#: Of a query with a backlog: weight, updates, ln of the chance that none passes, results to
#: expect, work (ns).
Waiting = tuple[float, int, float, float, float]


class Knee:
    """Adds up, over backlogs seen, what each beta would have cost."""

    def __init__(self) -> None:
        self._stale = np.zeros(len(BETAS))
        self._slow = np.zeros(len(BETAS))

    def see(self, backlog: Sequence[Waiting]) -> None:
        """A backlog as it is now; earlier ones count less from now on."""
        if len(backlog) < 2:
            return  # one query has one order
        stale, slow = drained(np.array(backlog), BETAS)
        self._stale = MEMORY * self._stale + stale
        self._slow = MEMORY * self._slow + slow

    def beta(self) -> float | None:
        """The knee; None before anything was seen."""
        product = self._stale * self._slow
        return float(BETAS[product.argmin()]) if product.any() else None


def drained(
    backlog: NDArray[np.float64], betas: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected stale time by weight, and expected response times of results, both summed.

    One row of ``backlog`` per query, as in ``Waiting``; one entry per beta.
    """
    weight, updates, log_fresh, results, work = backlog.T
    share = updates ** (betas[:, None] - 1)
    priority = weight * -np.expm1(share * log_fresh) / (share * work)
    order = np.argsort(-priority, axis=1, kind="stable")
    ends = np.cumsum(work[order], axis=1)
    stale = (weight * -np.expm1(log_fresh))[order] * ends
    slow = results[order] * (ends - work[order] / 2)
    return stale.sum(axis=1), slow.sum(axis=1)
