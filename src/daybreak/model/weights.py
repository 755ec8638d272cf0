"""Freshness weights that follow how many users registered a query (fas-mcq-paper 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Q = TypeVar("Q")


def weights_by_subscribers(subscribers: Mapping[Q, int]) -> dict[Q, float]:
    """Weights in (0, 1] in proportion to how many registered each query.

    A query that nobody registered counts as one with a single subscriber.
    """
    most = max([1, *subscribers.values()])
    return {query: max(1, count) / most for query, count in subscribers.items()}
