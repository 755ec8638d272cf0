"""How a claim is judged: what is required, in words, and whether the measurements meet it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from daybreak.model.errors import EngineBug

Bool = bool | np.bool[Any]
Number = float | np.floating[Any]

#: How far a measurement may lie from the number a text prints, as a share of that number: the
#: texts measure other machines, so a tenth is close.
CLOSE = 0.1


@dataclass(frozen=True, slots=True)
class Rule:
    """A requirement that a reader can check, and whether it is met."""

    requires: str
    met: bool

    def __post_init__(self) -> None:
        if not self.requires.strip():
            raise EngineBug("a rule requires nothing")


def required(requires: str, *held: Bool) -> Rule:
    """A requirement in words, met if every case meets it; no case at all meets nothing."""
    return Rule(requires, bool(held) and all(bool(h) for h in held))


def as_claimed(*held: Bool) -> Rule:
    """For claims that state their own criterion: an order, an equality, a tolerance."""
    return required("as claimed", *held)


def below(limit: float, *values: Number) -> Rule:
    return _compared("below", operator.lt, limit, values)


def at_most(limit: float, *values: Number) -> Rule:
    return _compared("at most", operator.le, limit, values)


def above(limit: float, *values: Number) -> Rule:
    return _compared("above", operator.gt, limit, values)


def at_least(limit: float, *values: Number) -> Rule:
    return _compared("at least", operator.ge, limit, values)


def between(low: float, high: float, *values: Number) -> Rule:
    return required(f"from {low:g} to {high:g}", *(low <= float(v) <= high for v in values))


def close(
    printed: float | Iterable[float], measured: float | Iterable[float], tolerance: float = CLOSE
) -> Rule:
    """Each measurement within a share of the text's number, which may be one for all of them."""
    pairs = _paired(printed, measured)
    return required(
        f"within {tolerance:.0%} of the text's",
        *(abs(m - p) <= tolerance * abs(p) for p, m in pairs),
    )


def near(printed: float | Iterable[float], measured: float | Iterable[float], by: float) -> Rule:
    """Each measurement within a distance of the text's number."""
    pairs = _paired(printed, measured)
    return required(f"within {by:g} of the text's", *(abs(m - p) <= by for p, m in pairs))


def in_range(low: float, high: float, measured: Iterable[float], tolerance: float = CLOSE) -> Rule:
    """All measurements in the range the text prints, give or take a share of its ends."""
    return required(
        f"in the text's range, give or take {tolerance:.0%}",
        *(low * (1 - tolerance) <= m <= high * (1 + tolerance) for m in measured),
    )


def _compared(
    word: str, compare: Callable[[float, float], bool], limit: float, values: Iterable[Number]
) -> Rule:
    return required(f"{word} {limit:g}", *(compare(float(v), limit) for v in values))


def _paired(
    printed: float | Iterable[float], measured: float | Iterable[float]
) -> list[tuple[float, float]]:
    got = list(measured) if isinstance(measured, Iterable) else [measured]
    text = list(printed) if isinstance(printed, Iterable) else [printed] * len(got)
    return list(zip(text, got, strict=True))
