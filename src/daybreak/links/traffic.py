"""Draws the tuples that arrive at a link: Poisson streams, one random stream per class."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from daybreak.links.link_classes import LinkClass, ranked
from daybreak.links.link_tuples import LinkTuple, Marks, is_mandatory
from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S

#: How a rate or a bandwidth changes: (from this second on, times this factor), rising.
Profile = Sequence[tuple[float, float]]


def draw_traffic(
    classes: Sequence[LinkClass],
    duration_s: float,
    seed: int,
    *,
    marks: Marks = "last",
    rates: Profile = (),
) -> list[LinkTuple]:
    """Every tuple of every class that arrives within ``duration_s``, in order of arrival.

    The same seed gives the same instants whatever else the classes declare, so two settings
    can be compared tuple by tuple.
    """
    drawn: list[LinkTuple] = []
    for rank, cls in enumerate(ranked(classes)):
        if cls.rate_per_s is None:
            raise ConfigError(
                f"link class {cls.name!r}",
                "has no rate_per_s",
                "give the tuples that arrive per second",
            )
        instants = _poisson(cls.rate_per_s, duration_s, rates, seed, f"arrivals/{cls.name}")
        deadline_ns = cls.deadline_ns
        flags = [is_mandatory(place, cls, marks) for place in range(cls.n)]
        drawn.extend(
            LinkTuple(rank, i, at, at + deadline_ns, cls.size_bytes, flags[i % cls.n], at)
            for i, at in enumerate(instants.tolist())
        )
    drawn.sort(key=lambda item: (item.arrived_ns, item.cls))
    return drawn


def _poisson(
    rate_per_s: float, duration_s: float, rates: Profile, seed: int, purpose: str
) -> NDArray[np.int64]:
    """Instants in ns. A changing rate stretches the time axis of a steady process."""
    rng = np.random.default_rng([seed, crc32(purpose.encode())])
    edges, work = _work(rates, duration_s)
    total = rate_per_s * work[-1]
    gaps = rng.exponential(size=int(total + 10 * total**0.5 + 20))
    at_work = np.cumsum(gaps) / rate_per_s
    instants = np.interp(at_work[at_work < work[-1]], work, edges)
    return np.asarray(instants * NS_PER_S, dtype=np.int64)


def _work(rates: Profile, duration_s: float) -> tuple[list[float], list[float]]:
    """Edges of the profile, and the integral of its factors up to each of them."""
    edges, factors = [0.0], [1.0]
    for start_s, factor in rates:
        if not (start_s >= edges[-1] and factor >= 0):
            raise ConfigError("profile", f"({start_s}, {factor})", "seconds rise, factors are >= 0")
        if start_s == edges[-1]:
            factors[-1] = factor
        elif start_s < duration_s:
            edges.append(start_s)
            factors.append(factor)
    edges.append(duration_s)
    work = [0.0]
    for i, factor in enumerate(factors):
        work.append(work[-1] + factor * (edges[i + 1] - edges[i]))
    return edges, work
